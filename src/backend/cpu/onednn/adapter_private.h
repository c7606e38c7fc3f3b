/* adapter_private.h — what the files of the adapter share: oneDNN's types, and how a family of primitives is described.
 */
#ifndef ONEDNN_ADAPTER_PRIVATE_H
#define ONEDNN_ADAPTER_PRIVATE_H

#include <dnnl.h>

#include "backend/cpu/onednn/adapter.h"

/* The two generations differ in who owns memory descriptors and in how a primitive is described. */
#if DNNL_VERSION_MAJOR >= 3
#define MD_POINTER(m) ((m)->set ? (m)->desc : NULL)
#define CREATE(name, pd, attr, ...) dnnl_##name##_primitive_desc_create(pd, onednn_engine, __VA_ARGS__, attr)
typedef const_dnnl_memory_desc_t md_pointer;
#else
#define MD_POINTER(m) ((m)->set ? &(m)->desc : NULL)
typedef const dnnl_memory_desc_t *md_pointer;
#endif

/* Owned: md_finish. */
typedef struct md {
  dnnl_memory_desc_t desc;
  bool set;
} md;

extern dnnl_engine_t onednn_engine; /* made with the first primitive */

/* The operands of a primitive as asked for. */
typedef struct request {
  md src, weights, bias, dst;
} request;

/* Builds a primitive of one family: `describe` makes the description from the operands. */
typedef dnnl_status_t (*describe_fn)(const void *desc, request *r, dnnl_primitive_attr_t attr,
                                     dnnl_primitive_desc_t *out);
typedef struct family {
  const char *name;
  describe_fn describe;
  const onednn_tensor *src, *weights, *bias, *dst; /* NULL: has none */
  const onednn_post *post;
  bool pack;   /* the primitive chooses the form of its weights */
  bool affine; /* weights and bias are a scale and a shift */
} family;

/* Writes dense weights in the form `to`; false if it is none of the plain blocked ones. `data` may lie anywhere. */
bool onednn_pack_blocked(md_pointer from, md_pointer to, const void *data, void *packed, int threads);
/* The same for the forms of Winograd convolutions. */
bool onednn_pack_winograd(md_pointer from, md_pointer to, const void *data, void *packed, int threads);

/* Fails with a record in ctx. */
rlx_status onednn_create(const void *ctx, int threads, const family *f, const void *desc, onednn_primitive **out);

#endif
