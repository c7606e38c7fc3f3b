/* rlx.h — use rlx: load or build a graph, make a session for a device, bind tensors, run.
 *
 * Conventions, for every function of this header:
 * - A function that can fail returns rlx_status; results come last and are left untouched on failure.
 *   rlx_error_message() then holds one line of text for this thread.
 * - Objects made by rlx_x_create or returned through a `T **` belong to the caller and are released by
 *   rlx_x_destroy, which accepts NULL. `const T *` results are borrowed from the object they came from.
 * - Option structs start with struct_size; set it with the matching RLX_..._INIT. Zero means default.
 * - Sizes and dims are int64_t, counts of elements; bytes are said so. Strings are UTF-8.
 * - The library does not print, exit or abort; messages go to the log callback. */
#ifndef RLX_H
#define RLX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "Windows is not supported yet"
#endif
#define RLX_API __attribute__((visibility("default")))
#define RLX_MUST_USE __attribute__((warn_unused_result))

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0
/* Raised whenever a public struct changes in a way that struct_size does not cover. */
#define RLX_ABI_VERSION 1

/* "0.1.0" */
RLX_API const char *rlx_version(void);

/* ---- status ------------------------------------------------------------------------------- */

typedef int rlx_status;
enum {
  RLX_OK = 0,
  RLX_INVALID = 1,       /* an argument, attribute, tensor or graph that is not valid */
  RLX_NOT_FOUND = 2,     /* a name, file, op, device or symbol that does not exist */
  RLX_UNSUPPORTED = 3,   /* valid, but nothing here can do it */
  RLX_OUT_OF_MEMORY = 4, /* an allocation failed, or the session's memory limit was reached */
  RLX_IO = 5,            /* a file could not be read or written */
  RLX_MALFORMED = 6,     /* a file or text that breaks its format */
  RLX_CANCELLED = 7,     /* the run was cancelled */
  RLX_BUSY = 8,          /* all run states are in use and the session does not wait */
  RLX_DEVICE = 9,        /* the device or its driver failed */
  RLX_KERNEL = 10,       /* a kernel reported a failure */
  RLX_DUPLICATE = 11,    /* already registered */
  RLX_POLICY = 12,       /* the fallback policy forbids it */
  RLX_INTERNAL = 13      /* a defect of rlx itself */
};
/* "invalid", "not found", … */
RLX_API const char *rlx_status_name(rlx_status status);
/* The text of this thread's last failing call, one line; "" before any failure. Valid until the next
 * failing call on this thread. */
RLX_API const char *rlx_error_message(void);

/* ---- log ---------------------------------------------------------------------------------- */

enum { RLX_LOG_ERROR = 0, RLX_LOG_WARN = 1, RLX_LOG_INFO = 2, RLX_LOG_DEBUG = 3 };
typedef void (*rlx_log_fn)(void *user, int level, const char *line);
/* Replaces the process's log sink. NULL restores the default, which writes to stderr if RLX_DEBUG or
 * RLX_DBG_CUSTOM is set and is silent otherwise. Thread-safe. */
RLX_API void rlx_set_log(rlx_log_fn fn, void *user);

/* Row i of the table of debug switches (the words of RLX_DEBUG) and of the environment variables that rlx
 * reads, with a line of help; NULL past the end. */
RLX_API const char *rlx_debug_switch(int i, const char **help);
/* Row i of the table of passes that disable_passes may name, in pipeline order; NULL past the end. */
RLX_API const char *rlx_pass(int i, const char **help);
RLX_API const char *rlx_environment(int i, const char **help);

/* ---- types -------------------------------------------------------------------------------- */

/* Element types; the values are those of ONNX's TensorProto.DataType. */
typedef enum rlx_dtype {
  RLX_UNDEFINED = 0,
  RLX_FLOAT = 1,
  RLX_UINT8 = 2,
  RLX_INT8 = 3,
  RLX_UINT16 = 4,
  RLX_INT16 = 5,
  RLX_INT32 = 6,
  RLX_INT64 = 7,
  RLX_STRING = 8,
  RLX_BOOL = 9,
  RLX_FLOAT16 = 10,
  RLX_DOUBLE = 11,
  RLX_UINT32 = 12,
  RLX_UINT64 = 13,
  RLX_COMPLEX64 = 14,
  RLX_COMPLEX128 = 15,
  RLX_BFLOAT16 = 16,
  RLX_FLOAT8E4M3FN = 17,
  RLX_FLOAT8E4M3FNUZ = 18,
  RLX_FLOAT8E5M2 = 19,
  RLX_FLOAT8E5M2FNUZ = 20,
  RLX_UINT4 = 21,
  RLX_INT4 = 22,
  RLX_FLOAT4E2M1 = 23,
  RLX_FLOAT8E8M0 = 24,
  RLX_UINT2 = 25,
  RLX_INT2 = 26,
  RLX_FLOAT6E2M3 = 27,
  RLX_FLOAT6E3M2 = 28,
  RLX_DTYPE_COUNT = 29
} rlx_dtype;

/* ONNX's textual name: "float", "int64", "bfloat16", … ; "undefined" for anything else. */
RLX_API const char *rlx_dtype_name(rlx_dtype dtype);
/* The inverse; RLX_UNDEFINED if there is no such name. Also accepts "float32" and "float64". */
RLX_API rlx_dtype rlx_dtype_parse(const char *name);
/* Bits of one element (4-bit types 4, bool 8, complex64 64); 0 for string and undefined. */
RLX_API int rlx_dtype_bits(rlx_dtype dtype);
/* Bytes that `count` dense elements take, sub-byte types packed (rounded up); -1 on overflow, on a
 * negative count, and for undefined. For strings: count * sizeof(rlx_string). */
RLX_API int64_t rlx_dtype_bytes(rlx_dtype dtype, int64_t count);

#define RLX_MAX_RANK 16
#define RLX_UNKNOWN (-1) /* a rank or a dim that is not known */

typedef enum rlx_kind {
  RLX_KIND_TENSOR = 0,
  RLX_KIND_SEQUENCE = 1, /* host only */
  RLX_KIND_OPTIONAL = 2, /* host only */
  RLX_KIND_MAP = 3       /* host only */
} rlx_kind;

#define RLX_MAX_NESTING 8 /* sequences, optionals and maps in each other */

/* The type of a value: for tensors dtype, rank and dims, any of which may be unknown. One that holds others has the
 * dtype of the tensors that are innermost, and says in `element` and dims[0] what it holds: rlx_type_hold writes that
 * and rlx_type_held reads it. With dims[0] zero it holds plain tensors, or if element is another kind, such of plain
 * tensors. */
typedef struct rlx_type {
  rlx_kind kind;
  rlx_dtype dtype;  /* of the elements, however deep they lie */
  int32_t rank;     /* RLX_UNKNOWN or 0..RLX_MAX_RANK */
  rlx_kind element; /* of a sequence, an optional or a map: the kind it holds, of a map as values */
  int64_t dims[RLX_MAX_RANK];
} rlx_type;

/* The type of a sequence or an optional of `held` (key UNDEFINED), or of a map from keys, an integer type or string, to
 * it. Of a tensor held only the dtype is kept. Fails past RLX_MAX_NESTING levels. */
RLX_API RLX_MUST_USE rlx_status rlx_type_hold(rlx_kind kind, rlx_dtype key, const rlx_type *held, rlx_type *out);
/* What a value of this type holds; of a map its values. False for a tensor. */
RLX_API bool rlx_type_held(const rlx_type *t, rlx_type *out);
/* UNDEFINED for what is no map. */
RLX_API rlx_dtype rlx_type_key(const rlx_type *t);

/* One element of a string tensor; not NUL-terminated. */
typedef struct rlx_string {
  const char *data;
  size_t size;
} rlx_string;

/* ---- tensors ------------------------------------------------------------------------------ */

/* A dense row-major array with a reference count. Shared between threads freely; its contents are the
 * user's to synchronise. */
typedef struct rlx_tensor rlx_tensor;

/* Allocates host memory (64-byte aligned, zeroed). Fails with RLX_INVALID on bad dims or a size that
 * overflows, RLX_OUT_OF_MEMORY. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_create(rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out);
/* Wraps memory of the caller. `bytes` must be at least what dtype and dims need. release(user), if
 * given, is called when the last reference goes. Not for strings. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_wrap(void *data, size_t bytes, rlx_dtype dtype, int rank,
                                                const int64_t *dims, void (*release)(void *user), void *user,
                                                rlx_tensor **out);
RLX_API rlx_tensor *rlx_tensor_retain(rlx_tensor *t);
RLX_API void rlx_tensor_destroy(rlx_tensor *t); /* drops one reference */
RLX_API rlx_dtype rlx_tensor_dtype(const rlx_tensor *t);
RLX_API int rlx_tensor_rank(const rlx_tensor *t);
RLX_API const int64_t *rlx_tensor_dims(const rlx_tensor *t);
RLX_API int64_t rlx_tensor_count(const rlx_tensor *t); /* elements */
RLX_API size_t rlx_tensor_bytes(const rlx_tensor *t);
/* Host address of element 0. For strings an array of rlx_string. NULL for memory that the host cannot
 * see. */
RLX_API void *rlx_tensor_data(const rlx_tensor *t);
/* Sets element i of a string tensor to a copy of text. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_set_string(rlx_tensor *t, int64_t i, const char *text, size_t size);

/* Values that are no tensors but made of them, as objects of the same type with the same reference count: a
 * sequence of values of one type, an optional: a value or nothing, and a map. They are inputs and outputs of bindings
 * like tensors; their rlx_tensor_data is NULL, their rlx_tensor_count that of their items, their rlx_tensor_bytes
 * what the items hold. Immutable; items are retained, which may be NULL if count is 0.
 * A map has two items: its keys, a tensor of one dim without equal ones, and its values in the same order: a tensor of
 * as many elements where they are scalars, else a sequence. */
RLX_API RLX_MUST_USE rlx_status rlx_value_create(const rlx_type *type, rlx_tensor *const *items, int64_t count,
                                                 rlx_tensor **out);
RLX_API RLX_MUST_USE rlx_status rlx_map_create(rlx_tensor *keys, rlx_tensor *values, rlx_tensor **out);
/* Of tensors, or of what the items are. */
RLX_API RLX_MUST_USE rlx_status rlx_sequence_create(rlx_dtype dtype, rlx_tensor *const *items, int64_t count,
                                                    rlx_tensor **out);
/* item NULL: nothing, of the element kind and dtype given (of tensors); else it must be of them. */
RLX_API RLX_MUST_USE rlx_status rlx_optional_create(rlx_kind element, rlx_dtype dtype, rlx_tensor *item,
                                                    rlx_tensor **out);
RLX_API rlx_kind rlx_tensor_kind(const rlx_tensor *t);
/* Of a tensor dtype and dims; of other values what they hold. */
RLX_API void rlx_tensor_type(const rlx_tensor *t, rlx_type *out);
/* Item i, borrowed; NULL past the end and for a tensor. */
RLX_API rlx_tensor *rlx_tensor_item(const rlx_tensor *t, int64_t i);

/* Files: ONNX TensorProto (.pb) and NumPy (.npy, version 1 to 3, C order), chosen by content when
 * reading and by the name's ending when writing. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_read(const char *path, rlx_tensor **out);
/* Reads a value of the kind that `type` says: an ONNX SequenceProto, OptionalProto or MapProto, which do not say
 * themselves what they are; a tensor as rlx_tensor_read. rlx_tensor_write writes them (.pb). */
RLX_API RLX_MUST_USE rlx_status rlx_value_read(const char *path, const rlx_type *type, rlx_tensor **out);
RLX_API RLX_MUST_USE rlx_status rlx_tensor_write(const rlx_tensor *t, const char *name, const char *path);

/* DLPack (github.com/dmlc/dlpack, managed tensor version 0). Export keeps a reference until the
 * consumer calls the deleter; import takes ownership on success. Host memory, dense row-major only. */
struct DLManagedTensor;
RLX_API RLX_MUST_USE rlx_status rlx_tensor_to_dlpack(rlx_tensor *t, struct DLManagedTensor **out);
RLX_API RLX_MUST_USE rlx_status rlx_tensor_from_dlpack(struct DLManagedTensor *m, rlx_tensor **out);

/* ---- registries and packages -------------------------------------------------------------- */

/* Where ops and kernels are found; registries chain session → package → process. See extend.h. */
typedef struct rlx_registry rlx_registry;

/* The process registry; built-in ops are in it. Never destroyed. */
RLX_API rlx_registry *rlx_registry_process(void);
/* A registry of the caller's (session scope), in front of the process's. Must outlive no one: sessions
 * and graphs keep what they resolved. */
RLX_API RLX_MUST_USE rlx_status rlx_registry_create(rlx_registry **out);
RLX_API void rlx_registry_destroy(rlx_registry *r);

/* Loads an op package into a registry (NULL: the process's): NAME found as librlx-NAME.so on
 * RLX_PACKAGE_PATH or in the folder rlx/ beside librlx.so, or a file (anything with a '/'). Loading the same file again
 * does nothing. Fails with RLX_NOT_FOUND, or RLX_INVALID for a wrong ABI, a missing entry symbol, or a
 * package whose registration fails (what it registered before is taken back). */
RLX_API RLX_MUST_USE rlx_status rlx_load_package(rlx_registry *r, const char *name_or_file);

/* ---- graphs ------------------------------------------------------------------------------- */

typedef struct rlx_graph rlx_graph;
typedef struct rlx_value rlx_value;
typedef struct rlx_node rlx_node;

typedef struct rlx_load_options {
  uint32_t struct_size;
  uint32_t flags;               /* RLX_LOAD_… */
  const rlx_registry *registry; /* ops known while loading; NULL: the process's */
  int64_t memory_limit;         /* bytes the loader may allocate; 0: three quarters of the memory */
} rlx_load_options;
#define RLX_LOAD_OPTIONS_INIT {sizeof(rlx_load_options), 0, NULL, 0}

/* Loads a model: an ONNX file, or rlx's text form (chosen by content). Weights stay in the mapped file.
 * Operators that no registry knows are kept by name; making a session reports them. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_load(const char *path, const rlx_load_options *options, rlx_graph **out);
/* The same from memory, which is copied; external data is refused. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_load_memory(const void *data, size_t size, const rlx_load_options *options,
                                                      rlx_graph **out);
RLX_API void rlx_graph_destroy(rlx_graph *g);
/* Writes an ONNX file. If it would pass 2 GiB, weights go to PATH.data beside it. Fails with
 * RLX_UNSUPPORTED for what ONNX has no word for, such as nodes of two opset versions. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_save(const rlx_graph *g, const char *path);
/* The text form; freed with rlx_free. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_print(const rlx_graph *g, char **text);
/* Checks structure, types and attributes; the message names the first offender. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_validate(const rlx_graph *g);
RLX_API void rlx_free(void *p);

/* Building. Failures are sticky: after the first one every call returns NULL, and rlx_graph_finish
 * returns the first cause. Names may be NULL (one is made). Values belong to the graph. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_create(const rlx_registry *registry, rlx_graph **out);
/* The opset version the graph's nodes of a domain mean ("" or "ai.onnx" for ONNX's own). */
RLX_API void rlx_graph_set_opset(rlx_graph *g, const char *domain, int version);
RLX_API rlx_value *rlx_graph_input(rlx_graph *g, const char *name, const rlx_type *type);
/* A constant; the graph keeps a reference to the tensor. */
RLX_API rlx_value *rlx_graph_constant(rlx_graph *g, const char *name, rlx_tensor *tensor);
/* An input with a default value: a constant that a binding may override with a value of `type`. */
RLX_API rlx_value *rlx_graph_default(rlx_graph *g, const char *name, const rlx_type *type, rlx_tensor *tensor);
RLX_API void rlx_graph_output(rlx_graph *g, rlx_value *value, const char *name);
/* Takes all outputs back; their values stay. */
RLX_API void rlx_graph_clear_outputs(rlx_graph *g);

typedef enum rlx_attr_kind {
  RLX_ATTR_NONE = 0,
  RLX_ATTR_FLOAT = 1, /* these values are ONNX's AttributeProto.AttributeType */
  RLX_ATTR_INT = 2,
  RLX_ATTR_STRING = 3,
  RLX_ATTR_TENSOR = 4,
  RLX_ATTR_GRAPH = 5,
  RLX_ATTR_FLOATS = 6,
  RLX_ATTR_INTS = 7,
  RLX_ATTR_STRINGS = 8,
  RLX_ATTR_TENSORS = 9,
  RLX_ATTR_GRAPHS = 10,
  RLX_ATTR_SPARSE_TENSOR = 11,
  RLX_ATTR_SPARSE_TENSORS = 12,
  RLX_ATTR_TYPE = 13,
  RLX_ATTR_TYPES = 14,
  RLX_ATTR_BYTES = 100 /* opaque bytes; written in ONNX as a string */
} rlx_attr_kind;

/* An attribute as a node is given it. Everything it points to is copied or retained. */
typedef struct rlx_attr {
  const char *name;
  rlx_attr_kind kind;
  float f;                    /* FLOAT */
  int64_t i;                  /* INT */
  rlx_string s;               /* STRING, BYTES */
  rlx_tensor *tensor;         /* TENSOR */
  rlx_graph *graph;           /* GRAPH; the node takes it over */
  const float *floats;        /* FLOATS */
  const int64_t *ints;        /* INTS */
  const rlx_string *strings;  /* STRINGS */
  rlx_tensor *const *tensors; /* TENSORS */
  rlx_graph *const *graphs;   /* GRAPHS; the node takes them over */
  const rlx_type *types;      /* TYPE (one), TYPES */
  size_t count;               /* of the list kinds */
} rlx_attr;
#define RLX_ATTR_I(attr_name, value) {.name = (attr_name), .kind = RLX_ATTR_INT, .i = (value)}
#define RLX_ATTR_F(attr_name, value) {.name = (attr_name), .kind = RLX_ATTR_FLOAT, .f = (value)}

typedef struct rlx_node_desc {
  uint32_t struct_size;
  const char *op;           /* dotted: "onnx.Softmax", "acme.my_op" */
  const char *name;         /* NULL: made */
  rlx_value *const *inputs; /* NULL entries: optional inputs left out */
  int input_count;
  const rlx_attr *attrs;
  int attr_count;
  int output_count;                /* 0: one */
  const char *const *output_names; /* NULL, or entries NULL: made; "" leaves an optional output out */
} rlx_node_desc;

/* Adds a node and returns it; its outputs by rlx_node_output. */
RLX_API rlx_node *rlx_graph_node(rlx_graph *g, const rlx_node_desc *desc);
RLX_API rlx_value *rlx_node_output(const rlx_node *node, int i);
/* Short form for a node with one output; returns that. */
RLX_API rlx_value *rlx_graph_op(rlx_graph *g, const char *op, const rlx_attr *attrs, int attr_count,
                                rlx_value *const *inputs, int input_count);
RLX_API RLX_MUST_USE rlx_status rlx_graph_finish(rlx_graph *g);
/* The value of that name in the graph, NULL if there is none. */
RLX_API rlx_value *rlx_graph_find(const rlx_graph *g, const char *name);
/* Rewrites nodes that mean an older version of their op into nodes of the newest, by the older op's `lower`, and
 * forgets the opset versions that the graph imports. A file has one version a domain: needed before a graph with
 * derivatives, whose nodes mean the newest versions, is saved. Values keep their names. */
RLX_API RLX_MUST_USE rlx_status rlx_graph_upgrade(rlx_graph *g);

/* ---- derivatives -------------------------------------------------------------------------- */

/* These add nodes to a finished graph, which stays finished; nothing runs, and no output is added
 * (rlx_graph_output does that). Values of floats only have derivatives; derivatives end at other values and at ops
 * that say so (rlx_op.no_derivative). The rule of a node is its op's vjp (going back) or jvp (going forward); else
 * that of what its `derive` or `lower` makes; a jvp is also made by transposing a vjp twice, which is exact.
 * Nodes with subgraphs (If, Loop, Scan) have derivatives like any other. Fails with RLX_UNSUPPORTED if a node on the
 * way has no rule, naming the nodes from the loss to it. After a failure the graph can only be destroyed. */

/* gradients[i] becomes d loss / d wrt[i], of the type of wrt[i]; zeros where the loss does not depend on it.
 * loss_gradient: what the sum starts with, of the loss's shape; NULL: ones. A value used many times gets the sum of
 * its gradients. wrt[i] may be any value: input, constant, or result. */
RLX_API RLX_MUST_USE rlx_status rlx_gradient(rlx_graph *g, rlx_value *loss, rlx_value *loss_gradient,
                                             rlx_value *const *wrt, int wrt_count, rlx_value **gradients);
/* Reverse mode with several outputs, each with its gradient (NULL: none); gradients[i] is NULL where none of them
 * depends on wrt[i]. g may be a subgraph of a node, and wrt values of the graphs around it. */
RLX_API RLX_MUST_USE rlx_status rlx_vjp(rlx_graph *g, rlx_value *const *outputs, rlx_value *const *output_gradients,
                                        int output_count, rlx_value *const *wrt, int wrt_count, rlx_value **gradients);
/* Forward mode: output_tangents[i] becomes the derivative of outputs[i] along tangents[k] of inputs[k] (NULL: zero),
 * NULL where outputs[i] depends on none of them. */
RLX_API RLX_MUST_USE rlx_status rlx_jvp(rlx_graph *g, rlx_value *const *inputs, rlx_value *const *tangents,
                                        int input_count, rlx_value *const *outputs, int output_count,
                                        rlx_value **output_tangents);

/* ---- devices ------------------------------------------------------------------------------ */

typedef struct rlx_device_info {
  uint32_t struct_size;
  char name[64];         /* what RLX calls it: "cpu", "vulkan:0" */
  char description[192]; /* what the driver calls it, or why it is absent */
  bool present;
} rlx_device_info;

RLX_API int rlx_device_count(void);
RLX_API RLX_MUST_USE rlx_status rlx_device_get(int i, rlx_device_info *info);

/* ---- sessions ----------------------------------------------------------------------------- */

/* A graph compiled for a device. Immutable: any number of threads may run it. */
typedef struct rlx_session rlx_session;

typedef enum rlx_policy {
  RLX_POLICY_ALLOW = 0, /* fallback is allowed; one log line sums up the trips */
  RLX_POLICY_WARN = 1,
  RLX_POLICY_BUDGET = 2,
  RLX_POLICY_FORBID = 3
} rlx_policy;

typedef enum rlx_tier {
  RLX_TIER_ANY = 0,
  RLX_TIER_RAW = 1,
  RLX_TIER_PORTABLE = 2,
  RLX_TIER_LOWER = 3,
  RLX_TIER_HOST = 4,
  RLX_TIER_CPU = 5,
  RLX_TIER_EVAL = 6
} rlx_tier;
RLX_API const char *rlx_tier_name(rlx_tier tier);

/* A pin: these nodes must use this tier and kernel, or making the session fails with the reasons. */
typedef struct rlx_pin {
  const char *node;   /* a node's name, or NULL for every node */
  const char *op;     /* an op's name, or NULL for every op */
  rlx_tier tier;      /* RLX_TIER_ANY: any */
  const char *kernel; /* a kernel's name, or NULL */
} rlx_pin;

/* An exception to the fallback policy for an op or a node. */
typedef struct rlx_policy_exception {
  const char *node; /* or NULL */
  const char *op;   /* or NULL */
  rlx_policy policy;
} rlx_policy_exception;

typedef struct rlx_session_options {
  uint32_t struct_size;
  const char *device;      /* "cpu" (default), "vulkan[:i]", "cuda[:i]", "metal[:i]", "record", "auto" */
  rlx_registry *registry;  /* session scope; NULL: only the process's */
  int threads;             /* total, 0: one per core */
  int max_concurrent_runs; /* 0: one per core; past it a run waits … */
  bool busy_fails;         /* … or fails with RLX_BUSY */
  int64_t memory_limit;    /* bytes of run memory over all run states, 0: none */
  rlx_policy policy;       /* reported; on the cpu nothing falls back, so that none of these four has an effect */
  int budget_trips;        /* RLX_POLICY_BUDGET: host trips a run */
  int64_t budget_bytes;    /* RLX_POLICY_BUDGET: bytes staged a run */
  const rlx_policy_exception *exceptions;
  int exception_count;
  const rlx_pin *pins;
  int pin_count;
  bool fast;                  /* precision: false exact, true bf16/TF32 matrix units inside f32 ops */
  const char *disable_passes; /* comma-separated names of passes to leave out; for tests and bisection */
  const char *debug;          /* as RLX_DEBUG; overrides it */
} rlx_session_options;
#define RLX_SESSION_OPTIONS_INIT                                                                         \
  { sizeof(rlx_session_options), NULL, NULL, 0, 0, false, 0, RLX_POLICY_ALLOW, 0, 0, NULL, 0, NULL, 0,   \
    false, NULL, NULL }

/* Compiles a graph for a device. The graph may be destroyed afterwards. Fails, among others, with one
 * message listing every node that no kernel can run. */
RLX_API RLX_MUST_USE rlx_status rlx_session_create(const rlx_graph *g, const rlx_session_options *options,
                                                   rlx_session **out);
/* All bindings must be destroyed before. */
RLX_API void rlx_session_destroy(rlx_session *s);

typedef struct rlx_port_info {
  const char *name;
  rlx_type type;              /* dims RLX_UNKNOWN where symbolic */
  const char *const *symbols; /* per dim: its symbol, or NULL */
} rlx_port_info;
RLX_API int rlx_session_input_count(const rlx_session *s);
RLX_API int rlx_session_output_count(const rlx_session *s);
RLX_API RLX_MUST_USE rlx_status rlx_session_input(const rlx_session *s, int i, rlx_port_info *info);
RLX_API RLX_MUST_USE rlx_status rlx_session_output(const rlx_session *s, int i, rlx_port_info *info);
/* Inputs with default values (ONNX: initializers that are inputs too) are not among the inputs: they need not be bound.
 * While nothing is, the default is a constant like any other; binding one runs a program built for that. */
RLX_API int rlx_session_default_count(const rlx_session *s);
RLX_API RLX_MUST_USE rlx_status rlx_session_default(const rlx_session *s, int i, rlx_port_info *info);

typedef enum rlx_report_format {
  RLX_REPORT_TEXT = 0,
  RLX_REPORT_JSON = 1,
  RLX_REPORT_DOT = 2 /* Graphviz */
} rlx_report_format;
/* What runs where and why: per node tier, kernel, refused candidates with reasons, origin; totals.
 * Freed with rlx_free. */
RLX_API RLX_MUST_USE rlx_status rlx_report(const rlx_session *s, rlx_report_format format, char **text);

/* Counters since the session was made. */
typedef struct rlx_session_stats {
  uint32_t struct_size;
  int64_t builds;     /* programs built (phase 1) */
  int64_t binds;      /* bound stages made (phase 2) */
  int64_t bind_hits;  /* runs that found theirs */
  int64_t bind_ns;    /* time in binding, packing included, prepare left out */
  int64_t prepare_ns; /* time in kernels' prepare */
  int64_t runs;
  int64_t steps;        /* steps of the newest bound main program, all its stages so far */
  int64_t packed_bytes; /* packed constants held */
  int64_t run_bytes;    /* memory of all run states now */
  /* On a GPU. */
  int64_t trips;    /* waits of the host for the device in the middle of runs */
  int64_t submits;  /* submissions */
  int64_t staged;   /* bytes copied between memory of the host and of the device */
  int64_t recorded; /* lists of commands recorded … */
  int64_t replayed; /* … and submitted as they were */
} rlx_session_stats;
RLX_API void rlx_session_get_stats(const rlx_session *s, rlx_session_stats *stats);

/* How often an op ran on a tier and kernel, over the runs since the session was made: steps of stages that ended well.
 */
typedef struct rlx_counter {
  uint32_t struct_size;
  rlx_tier tier;
  const char *op; /* texts last as long as the session */
  const char *kernel;
  const char *owner;
  int64_t steps;
} rlx_counter;
/* Row i; NOT_FOUND past the end. Rows are only ever added. */
RLX_API RLX_MUST_USE rlx_status rlx_session_counter(const rlx_session *s, int i, rlx_counter *out);

/* ---- running ------------------------------------------------------------------------------ */

/* Inputs and outputs of one run after another; used by one thread at a time. */
typedef struct rlx_binding rlx_binding;

RLX_API RLX_MUST_USE rlx_status rlx_binding_create(rlx_session *s, rlx_binding **out);
RLX_API void rlx_binding_destroy(rlx_binding *b);

enum {
  RLX_BIND_DONATE = 1 /* the run may overwrite this input's memory */
};
/* Binds an input (the binding keeps a reference). The contents may change between runs; a tensor of
 * other dims may be bound at any time. NULL unbinds. Fails with RLX_NOT_FOUND for a name that is no
 * input, RLX_INVALID for another dtype, rank, or a fixed dim that differs. */
RLX_API RLX_MUST_USE rlx_status rlx_binding_input(rlx_binding *b, const char *name, rlx_tensor *t, uint32_t flags);
/* Binds memory for an output: the run writes there, and fails if dtype or dims differ. NULL (default):
 * the run owns the memory; fetch it with rlx_binding_get. */
RLX_API RLX_MUST_USE rlx_status rlx_binding_output(rlx_binding *b, const char *name, rlx_tensor *t);
/* The output of the last successful run, with a reference for the caller. It stays valid and unchanged
 * whatever runs later, and may be bound as an input (to this or another binding) without a copy. */
RLX_API RLX_MUST_USE rlx_status rlx_binding_get(rlx_binding *b, const char *name, rlx_tensor **out);

/* A tensor in memory of the session's device (host memory on the cpu), not zeroed. Bound as an input or output it is
 * used where it is, in one run after another without a copy. rlx_tensor_data is NULL where the host does not see that
 * memory. It may outlive the session. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_on_device(rlx_session *s, rlx_dtype dtype, int rank, const int64_t *dims,
                                                     rlx_tensor **out);
/* The same over memory of the application's: `bytes` from `offset`, a multiple of 16, in a buffer of the backend's API
 * (see its header). It must outlive the tensor; rlx_tensor_data is NULL. */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_native(rlx_session *s, void *buffer, uint64_t offset, uint64_t bytes,
                                                  rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out);
/* Copies the contents between tensors of one dtype and count, wherever they are, and waits. Not while a run uses them.
 */
RLX_API RLX_MUST_USE rlx_status rlx_tensor_copy(const rlx_tensor *from, rlx_tensor *to);

/* A flag that stops a run from any thread: the run ends with RLX_CANCELLED between two steps. */
typedef struct rlx_cancel rlx_cancel;
RLX_API RLX_MUST_USE rlx_status rlx_cancel_create(rlx_cancel **out);
RLX_API void rlx_cancel_set(rlx_cancel *c, bool cancelled);
RLX_API void rlx_cancel_destroy(rlx_cancel *c);

typedef struct rlx_run_options {
  uint32_t struct_size;
  rlx_cancel *cancel;
  /* Between steps. The total grows while what is known only after running shows more: stages, loops. */
  void (*progress)(void *user, int64_t done_steps, int64_t total_steps);
  void *progress_user;
} rlx_run_options;
#define RLX_RUN_OPTIONS_INIT {sizeof(rlx_run_options), NULL, NULL, NULL}

/* Runs once and waits. After a failure the session and the binding can be used again at once. */
RLX_API RLX_MUST_USE rlx_status rlx_run(rlx_binding *b, const rlx_run_options *options);

/* An object of the native API to wait for or to signal (a semaphore, event …). */
typedef struct rlx_sync {
  void *object;
  uint64_t value;
} rlx_sync;
/* Starts a run; rlx_wait ends it. One at a time on a binding. The cpu device takes no rlx_sync objects
 * (RLX_UNSUPPORTED) and runs on a thread of its own. */
RLX_API RLX_MUST_USE rlx_status rlx_submit(rlx_binding *b, const rlx_run_options *options, const rlx_sync *waits,
                                           int wait_count, const rlx_sync *signals, int signal_count);
RLX_API RLX_MUST_USE rlx_status rlx_wait(rlx_binding *b);

/* Traces the steps of this session's runs into a file in Perfetto's (Chrome's) JSON trace format, until
 * called with NULL. */
RLX_API RLX_MUST_USE rlx_status rlx_trace(rlx_session *s, const char *path);

/* Runs one op by name on host tensors, without a graph. outputs[i] NULL on entry: made (the caller then
 * owns a reference); else written in place. */
RLX_API RLX_MUST_USE rlx_status rlx_call(rlx_registry *registry, const char *op, const rlx_attr *attrs, int attr_count,
                                         rlx_tensor *const *inputs, int input_count, rlx_tensor **outputs,
                                         int output_count);

/* ---- asking ------------------------------------------------------------------------------- */

/* The answer to "which kernel would run this?"; freed with rlx_free. */
typedef struct rlx_which_answer {
  rlx_tier tier;       /* RLX_TIER_ANY: none can */
  const char *kernel;  /* its name */
  const char *owner;   /* registry or package it came from */
  const char *reasons; /* one line per candidate passed over: "tier kernel: reason\n" */
} rlx_which_answer;
/* Asks before compiling. device as in rlx_session_options; types may have unknown dims. */
RLX_API RLX_MUST_USE rlx_status rlx_which(rlx_registry *registry, const char *device, const char *op,
                                          const rlx_attr *attrs, int attr_count, const rlx_type *inputs,
                                          int input_count, rlx_which_answer **out);

#ifdef __cplusplus
}
#endif
#endif
