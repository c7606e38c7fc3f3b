/* extend.h — extend rlx: ops, kernels and packages, through the records rlx's own ops use.
 *
 * Rules of every record:
 * - It starts with struct_size (of the whole record); fields left out are zero. Records only grow.
 * - Registering copies the record, its arrays and strings; the functions must stay loaded (packages are
 *   never unmapped by default).
 * - Lists are arrays ending with a zeroed entry (a NULL name).
 * - A callback that can fail returns rlx_fail(ctx, code, "…") with the context it was given. */
#ifndef RLX_EXTEND_H
#define RLX_EXTEND_H

#include <rlx/rlx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ends a callback with an error: records one line of text for the run or compilation that ctx belongs
 * to (the first one wins, from whatever thread) and returns code. ctx is any rlx_infer, rlx_bound or
 * rlx_ctx that rlx handed out. rlx adds the names of node, op and kernel. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
RLX_API rlx_status
rlx_fail(const void *ctx, rlx_status code, const char *format, ...);

/* ---- looking at a node -------------------------------------------------------------------- */

RLX_API const char *rlx_node_name(const rlx_node *n);
RLX_API const char *rlx_node_op(const rlx_node *n);
RLX_API const void *rlx_node_params(const rlx_node *n); /* decoded attributes (rlx_op.params_size) */
RLX_API int rlx_node_input_count(const rlx_node *n);    /* counts left-out optional inputs */
RLX_API int rlx_node_output_count(const rlx_node *n);
RLX_API rlx_value *rlx_node_input(const rlx_node *n, int i); /* NULL if left out or past the end */
/* Type as known so far; NULL if left out. */
RLX_API const rlx_type *rlx_node_input_type(const rlx_node *n, int i);
RLX_API const rlx_type *rlx_node_output_type(const rlx_node *n, int i);
/* The input's value if it is a constant, else NULL. */
RLX_API const rlx_tensor *rlx_node_constant(const rlx_node *n, int i);
RLX_API const rlx_type *rlx_value_type(const rlx_value *v);
RLX_API const char *rlx_value_name(const rlx_value *v);

/* ---- ops ---------------------------------------------------------------------------------- */

/* Sets of dtypes, one bit a dtype. */
#define RLX_SET(dtype) (UINT64_C(1) << (dtype))
#define RLX_SET_FLOATS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16) | RLX_SET(RLX_BFLOAT16))
#define RLX_SET_SIGNED (RLX_SET(RLX_INT8) | RLX_SET(RLX_INT16) | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64))
#define RLX_SET_UNSIGNED                                                                                 \
  (RLX_SET(RLX_UINT8) | RLX_SET(RLX_UINT16) | RLX_SET(RLX_UINT32) | RLX_SET(RLX_UINT64))
#define RLX_SET_INTEGERS (RLX_SET_SIGNED | RLX_SET_UNSIGNED)
#define RLX_SET_NUMBERS (RLX_SET_FLOATS | RLX_SET_INTEGERS)
#define RLX_SET_INDEX (RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64))
#define RLX_SET_ALL (~UINT64_C(0))

enum {                        /* rlx_port.flags */
       RLX_OPTIONAL = 1,      /* may be left out */
       RLX_VARIADIC = 2,      /* any number; the last port only */
       RLX_HOST = 4,          /* read or written by the host on every device (shapes, conditions) */
       RLX_HETEROGENEOUS = 8, /* variadic: entries need not share the type */
       RLX_ANY_KIND = 16      /* sequences, optionals and maps too; default tensors only */
};

typedef struct rlx_port {
  const char *name;     /* "X" */
  const char *variable; /* ports with the same variable have the same dtype; NULL: stands alone */
  uint64_t dtypes;      /* RLX_SET_…; 0: all */
  uint32_t flags;
  int32_t min_count; /* variadic: at least this many */
} rlx_port;

/* Attribute lists as decoded. */
typedef struct rlx_ints {
  const int64_t *data;
  int64_t count;
} rlx_ints;
typedef struct rlx_floats {
  const float *data;
  int64_t count;
} rlx_floats;
typedef struct rlx_strings {
  const rlx_string *data;
  int64_t count;
} rlx_strings;
typedef struct rlx_tensors {
  rlx_tensor *const *data;
  int64_t count;
} rlx_tensors;
typedef struct rlx_graphs {
  rlx_graph *const *data;
  int64_t count;
} rlx_graphs;

enum {                   /* rlx_attr_def.flags */
       RLX_REQUIRED = 1, /* no default */
       RLX_RANGED = 2    /* INT, FLOAT (and each of a list) within [min, max] */
};

/* An attribute. Decoded once, when the node is made, to `offset` of the params struct, whose first
 * member is `uint64_t given`: bit i set if attribute i was written in the node. Decoded types: FLOAT
 * float, INT int64_t, STRING and BYTES rlx_string (also NUL-terminated), TENSOR rlx_tensor *, GRAPH
 * rlx_graph *, TYPE rlx_type, FLOATS rlx_floats, INTS rlx_ints, STRINGS rlx_strings, TENSORS
 * rlx_tensors, GRAPHS rlx_graphs. At most 64 attributes. */
typedef struct rlx_attr_def {
  const char *name;
  rlx_attr_kind kind;
  uint32_t flags;
  size_t offset;
  int64_t default_int;
  float default_float;
  const char *default_string; /* NULL: empty */
  rlx_ints default_ints;
  rlx_floats default_floats;
  double min, max;
} rlx_attr_def;

enum {                         /* rlx_op.traits */
       RLX_PURE = 1,           /* same inputs, same outputs; may be folded, shared, dropped if unused */
       RLX_ELEMENTWISE = 2,    /* with broadcasting by ONNX's rule */
       RLX_SIDE_EFFECT = 4,    /* never removed, order kept */
       RLX_RANDOM = 8,         /* not folded, not shared */
       RLX_SHAPE_ONLY = 16,    /* reads its inputs' dims, not their contents (Shape, Size) */
       RLX_CONTROL_FLOW = 32,  /* runs subgraphs through the executor (If, Loop, Scan): rlx's own */
       RLX_STOP_GRADIENT = 64, /* derivatives end here without an error; no_derivative says why that is right */
       RLX_LOWER_FIRST = 128   /* lower looks at the graph around the node: done before kernels are chosen */
};

typedef struct rlx_infer rlx_infer; /* context of shape inference */
typedef struct rlx_bound rlx_bound; /* a node with concrete extents */
typedef struct rlx_ctx rlx_ctx;     /* context of a run */

/* What an op means. */
typedef struct rlx_op {
  uint32_t struct_size;
  const char *name;           /* dotted; the domain is what precedes the last dot: "sparse.lu_solve" */
  int32_t version;            /* the first opset version of its domain that means this; 0 reads as 1 */
  const char *doc;            /* one paragraph: what it computes, and the source */
  const char *const *samples; /* NULL-terminated rows for check-op: "float[2,3], float[3] {axis = 1}" */
  const rlx_port *inputs;
  const rlx_port *outputs;
  const rlx_attr_def *attrs;
  size_t params_size;
  uint32_t traits;
  /* Shape inference: fills the output types. Called with whatever is known, again when more is. Output
   * dtypes are filled in from the type variables before. NULL: outputs are like input 0. */
  rlx_status (*infer)(rlx_infer *ctx);
  /* Reverse derivative: given the gradients of the outputs (NULL: none flows), makes those of the
   * inputs (left NULL: not differentiable, no gradient) with nodes added to g. Like the rest of them it
   * should be linear in the gradients: without a jvp, rlx transposes the vjp to get one. */
  rlx_status (*vjp)(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads);
  /* Forward derivative: tangents of the inputs (NULL: zero) to tangents of the outputs. */
  rlx_status (*jvp)(rlx_graph *g, const rlx_node *n, rlx_value *const *input_tangents, rlx_value **output_tangents);
  /* Rewrites the node into others: adds them to g and gives the values that replace its outputs. */
  rlx_status (*lower)(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
  /* The reference that defines the op: portable C on host memory. */
  rlx_status (*eval)(rlx_ctx *ctx);
  /* As lower, but only to be differentiated: the node itself runs as before. Where there is no vjp, derivatives
   * are those of the nodes it makes, else those of what lower makes. */
  rlx_status (*derive)(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
  /* Why there is no derivative, one line. With RLX_STOP_GRADIENT none flows (a count, a comparison, a random
   * draw: zero wherever there is one); without it, reaching the node is an error that says so. */
  const char *no_derivative;
  void *reserved[6];
} rlx_op;

/* For lower, vjp and jvp: records the first failure of a graph being built. Returns code. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
RLX_API rlx_status
rlx_graph_fail(rlx_graph *g, rlx_status code, const char *format, ...);
/* The first failure so far (RLX_OK if none): what `lower` returns at its end. */
RLX_API rlx_status rlx_graph_status(const rlx_graph *g);

/* For vjp and jvp: stands for a derivative that exists but that the op has no rule for. Only where it is needed, that
 * is an error, which says why. */
RLX_API rlx_value *rlx_no_derivative(rlx_graph *g, const char *why);

/* Shape inference. */
RLX_API const rlx_node *rlx_infer_node(const rlx_infer *ctx);
RLX_API const void *rlx_infer_params(const rlx_infer *ctx);
RLX_API int rlx_infer_input_count(const rlx_infer *ctx);
RLX_API int rlx_infer_output_count(const rlx_infer *ctx);
/* NULL if left out. */
RLX_API const rlx_type *rlx_infer_input(const rlx_infer *ctx, int i);
/* The value of input i, if it is known by now (a constant, or shape arithmetic); else NULL. Asking says
 * that the outputs' dims depend on it: if they are still unknown, inference is repeated once it is. */
RLX_API const rlx_tensor *rlx_infer_value(rlx_infer *ctx, int i);
/* The output to fill. It starts with its dtype if a type variable gives it, and unknown rank. Dims that
 * stay unknown although every input is known are known only after running. */
RLX_API rlx_type *rlx_infer_output(rlx_infer *ctx, int i);
/* Sets rank and dims of an output. */
RLX_API void rlx_infer_set(rlx_infer *ctx, int output, int rank, const int64_t *dims);
/* Output type = type of an input, dtype included. */
RLX_API void rlx_infer_like(rlx_infer *ctx, int output, int input);

/* ---- running on the CPU ------------------------------------------------------------------- */

/* A dense tensor of a run. */
typedef struct rlx_operand {
  void *data; /* NULL: an optional operand that was left out */
  const int64_t *dims;
  int64_t count; /* elements */
  int64_t bytes;
  rlx_dtype dtype;
  int32_t rank;
  uint32_t layout; /* RLX_ROW_MAJOR, or an id of the backend */
  uint32_t packed; /* nonzero: data is the kernel's own packed form */
} rlx_operand;

/* What eval and CPU kernels get. Inputs are read-only; every byte of every output must be written. */
struct rlx_ctx {
  uint32_t struct_size;
  int32_t input_count; /* counts left-out optional inputs in the middle */
  int32_t output_count;
  uint32_t flags; /* private */
  const rlx_operand *inputs;
  rlx_operand *outputs; /* data NULL: an optional output nobody wants; or of data-dependent size: see
                           rlx_output_shape */
  const void *params;
  const void *state; /* from prepare */
  void *run_state;   /* from run_init */
  void *workspace;   /* as many bytes as workspace() asked for */
  int64_t workspace_bytes;
  const rlx_node *node;
  void *executor; /* private */
};

/* For an output whose size is known only after running: states its true dims and returns where to write
 * it (memory planned from output_bound, else allocated now). NULL after a failure, which is recorded. */
RLX_API void *rlx_output_shape(rlx_ctx *ctx, int output, int rank, const int64_t *dims);

/* An operand that is no tensor but a sequence or an optional: dtype RLX_UNDEFINED, count 1, and data the address of a
 * pointer to the object. The object of input i; NULL if it is left out or a tensor. */
RLX_API rlx_tensor *rlx_input_value(const rlx_ctx *ctx, int i);
/* Makes a sequence or optional the value of an output. The run takes the caller's reference over, also on failure.
 * Tensors in it are the kernel's own, or items of the inputs: never memory of the run. */
RLX_API RLX_MUST_USE rlx_status rlx_output_value(rlx_ctx *ctx, int output, rlx_tensor *value);

/* Memory for the text of string outputs: it lasts as long as they do. An output's element may also point to the text of
 * an input's. NULL after a failure, which is recorded. Not from inside rlx_parallel_for. */
RLX_API char *rlx_text(rlx_ctx *ctx, size_t size);

/* Runs body(arg, begin, end) over [0, n) in ranges of `grain` or more (the last may be shorter), several a
 * thread, on the session's threads. The caller's thread takes part; returns when all are done. Inside
 * another parallel_for it runs inline. */
RLX_API void rlx_parallel_for(rlx_ctx *ctx, int64_t n, int64_t grain,
                              void (*body)(void *arg, int64_t begin, int64_t end), void *arg);
/* Threads rlx_parallel_for would use; for sizing per-thread scratch. */
RLX_API int rlx_thread_count(const rlx_ctx *ctx);
/* True once the run was cancelled: a long kernel may return RLX_CANCELLED. */
RLX_API bool rlx_cancelled(const rlx_ctx *ctx);

/* In a host kernel: runs the op's best CPU kernel on the same operands. */
RLX_API RLX_MUST_USE rlx_status rlx_delegate_cpu(rlx_ctx *ctx);

/* ---- kernels ------------------------------------------------------------------------------ */

#define RLX_ROW_MAJOR 0u
#define RLX_SAME_LAYOUT 0xffffffffu /* whatever comes, as long as all such operands agree */

/* A kernel's why_not may return this: it can tell only from extents. Its why_not_bound then decides at
 * bind time, and a later candidate that does not depend on extents must exist. */
RLX_API extern const char rlx_depends_on_extents[];
/* Formats a reason for why_not into a buffer of this thread, valid until its next use. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
RLX_API const char *
rlx_reason(const char *format, ...);

enum {                          /* rlx_kernel.traits */
       RLX_NOT_REPLAYABLE = 1,  /* GPU: recorded anew each run */
       RLX_NOT_THREAD_SAFE = 2, /* runs of this kernel are serialised */
       RLX_VIEW = 4             /* moves no data: output 0 is input 0 with other dims */
};

typedef struct rlx_pair {
  int16_t output;
  int16_t input;
} rlx_pair;

typedef struct rlx_packing {
  int64_t bytes; /* 0: as it is */
  int32_t align; /* 0: 64 */
  char key[60];  /* equal keys, equal packed bytes for the same constant */
} rlx_packing;

/* Layouts a kernel would like, ids of its backend. On entry what the values around have or may get
 * (RLX_ROW_MAJOR: nothing yet, ask for the best); the kernel sets every entry to what it takes and gives.
 * RLX_ROW_MAJOR everywhere must also be taken. */
typedef struct rlx_layouts {
  uint32_t struct_size;
  int32_t input_count;
  int32_t output_count;
  uint32_t *inputs;
  uint32_t *outputs;
} rlx_layouts;

/* Extents at bind time. */
RLX_API const rlx_node *rlx_bound_node(const rlx_bound *b);
RLX_API const void *rlx_bound_params(const rlx_bound *b);
RLX_API const rlx_type *rlx_bound_input(const rlx_bound *b, int i);      /* NULL if left out */
RLX_API const rlx_type *rlx_bound_output(const rlx_bound *b, int i);     /* NULL if not wanted */
RLX_API const rlx_tensor *rlx_bound_constant(const rlx_bound *b, int i); /* value of input i if constant */
RLX_API uint32_t rlx_bound_input_layout(const rlx_bound *b, int i);
RLX_API uint32_t rlx_bound_output_layout(const rlx_bound *b, int i);
RLX_API int rlx_bound_threads(const rlx_bound *b);

/* The common head of every kernel record. */
typedef struct rlx_kernel {
  const char *op;      /* dotted name */
  int32_t version_min; /* versions of the op it serves; 0, 0: all. May not span two params layouts */
  int32_t version_max;
  const char *name; /* "onednn", "reference" …: unique per op, backend and tier */
  int32_t priority; /* default 0 for everybody; higher wins */
  uint32_t traits;
  const rlx_pair *in_place; /* output may use the memory of input, if their shapes and element sizes agree */
  int32_t in_place_count;
  const rlx_pair *aliases; /* output shares memory with input, in every run */
  int32_t alias_count;
  int32_t min_align; /* bytes every operand must be aligned to; 0: that of its dtype; 1: constants may
                        lie at any address (a weight in its file): read them with memcpy */
  /* NULL: can run the node. Else why not, one short line. Sees dtypes, ranks, attributes, static dims. */
  const char *(*why_not)(const rlx_node *n);
  /* The same with extents, for kernels that answered rlx_depends_on_extents. */
  const char *(*why_not_bound)(const rlx_bound *b);
  void (*layouts)(const rlx_node *n, rlx_layouts *l);
  /* The packed form of constant input i; bytes 0: none. Asked after prepare. */
  rlx_status (*packing)(rlx_bound *b, const void *state, int input, rlx_packing *out);
  rlx_status (*pack)(rlx_bound *b, const void *state, int input, const rlx_operand *from, void *to);
  /* Scratch for one run: bytes (aligned to 64). Asked after prepare. */
  int64_t (*workspace)(rlx_bound *b, const void *state);
  /* Most elements output i can have, when its dims are known only after running; -1: no bound. */
  int64_t (*output_bound)(rlx_bound *b, int output);
  rlx_status (*prepare)(rlx_bound *b, void **state); /* program state: immutable, shared by all threads */
  void (*release)(void *state);
  rlx_status (*run_init)(const void *state, void **run_state); /* mutable, one per concurrent run */
  void (*run_done)(void *run_state);
  void *reserved[8];
} rlx_kernel;

typedef struct rlx_cpu_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  rlx_status (*run)(rlx_ctx *ctx);
} rlx_cpu_kernel;

/* A kernel on the CPU for sessions of one GPU backend, with that backend's memory visible to the host. */
typedef struct rlx_host_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  const char *backend; /* "vulkan", "cuda", "metal" */
  rlx_status (*run)(rlx_ctx *ctx);
} rlx_host_kernel;

/* ---- portable GPU kernels ----------------------------------------------------------------- */

/* One C-like text, rendered to GLSL, CUDA C and Metal Shading Language. docs/ADDING.md has its rules; a text that
 * breaks one is refused with the rule's name. What a body may use:
 * - Types f32 f64 i32 u32 i64 u64 bool. Narrower elements are widened when read: f16 and bf16 to f32, 8- and 16-bit
 *   integers to i32 or u32. NAME_t is the type so read of operand NAME; a type variable of the op stands for its type.
 * - Operands by name: x[i] reads, y[i] = value; writes, with indexes of up to 64 bits. PRESENT(x) is false for an
 *   optional operand that was left out.
 * - Scalars, arrays of scalars and constants by name; workgroup arrays (shared) by name; helpers marked FN.
 * - GROUP_ID GROUP_ID_Y GROUP_ID_Z GROUPS (in x) LOCAL_ID (flat in the workgroup) WG (its size) GLOBAL_ID GLOBAL_SIZE
 *   (in x), all u32; BARRIER(); INF; BITS_F2U BITS_U2F; GROUP_SUM GROUP_MAX GROUP_MIN of an f32 or i32 over the
 * workgroup (every invocation must come by); LOAD4(x, i) and STORE4(y, i, v) of an f32x4 (.x .y .z .w, made by F32X4)
 * at an i divisible by 4, of floats of at most 32 bits; and the functions of the scalar ops: EXP LOG TANH ERF POW … */
enum {                        /* rlx_gpu_arg.flags */
       RLX_GPU_INPUT = 1,     /* operand: input `index` */
       RLX_GPU_OUTPUT = 2,    /* operand: output `index` */
       RLX_GPU_WORKSPACE = 4, /* operand: workspace */
       RLX_GPU_SCALAR = 8,    /* by value: set by rlx_gpu_set_…, else the attribute of that name */
       RLX_GPU_COUNT = 16     /* by value: elements of output `index` */
};
typedef struct rlx_gpu_arg {
  const char *name;
  const char *type; /* "f32" "f16" "bf16" "f64" "i8" "u8" "i16" "u16" "i32" "u32" "i64" "u64" "bool", a type variable of
                       the op, "bits": unsigned words of the operand's width, or NULL: the operand's own dtype */
  uint32_t flags;
  int32_t index;  /* workspace: byte offset into it, a multiple of 16 */
  int32_t length; /* scalars: elements of an array, 0: one */
} rlx_gpu_arg;

typedef struct rlx_gpu_shared { /* workgroup memory */
  const char *name;
  const char *type; /* f32 i32 u32 i64 u64 */
  int32_t length;
} rlx_gpu_shared;

typedef struct rlx_gpu_constant { /* compile-time constants; never a run-time extent */
  const char *name;
  int64_t value;
} rlx_gpu_constant;

/* A text written as code: RLX_GPU_TEXT(y[i] = x[i];). */
#define RLX_GPU_TEXT(...) #__VA_ARGS__

typedef struct rlx_gpu_text rlx_gpu_text;
/* Appends to the text that a make_ function is asked for. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
RLX_API void
rlx_gpu_write(rlx_gpu_text *text, const char *format, ...);

/* One kernel text. Its arguments lie in a block in memory, in the order of `args`: operands as 64-bit addresses,
 * scalars by value with natural alignment (those narrower than 32 bits widened), arrays tightly packed. */
typedef struct rlx_gpu_function {
  const char *name;
  const rlx_gpu_arg *args;
  const rlx_gpu_shared *shared;
  const rlx_gpu_constant *constants;
  uint32_t workgroup[3];                                               /* zeros: 256, 1, 1 */
  const char *body;                                                    /* the text, or … */
  rlx_status (*make_body)(rlx_gpu_text *text, const rlx_node *n);      /* … text made per node */
  const char *functions;                                               /* helper functions before it, and … */
  rlx_status (*make_functions)(rlx_gpu_text *text, const rlx_node *n); /* … those made per node */
  const char *glsl, *cuda, *msl; /* whole-dialect overrides: complete sources with the same argument block */
  void *reserved[4];
} rlx_gpu_function;

typedef struct rlx_gpu_dispatch rlx_gpu_dispatch;

typedef struct rlx_gpu_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  const rlx_gpu_function *functions;
  /* Workgroups of the only function, or … */
  rlx_status (*grid)(const rlx_bound *b, int64_t groups[3]);
  /* … any sequence of dispatches. Neither: one invocation an element of output 0 (65535 workgroups at most: a body
   * walks on in steps of GLOBAL_SIZE). */
  rlx_status (*encode)(rlx_gpu_dispatch *d);
} rlx_gpu_kernel;

/* What encode gets. */
RLX_API const rlx_node *rlx_gpu_node(const rlx_gpu_dispatch *d);
RLX_API const void *rlx_gpu_params(const rlx_gpu_dispatch *d);
RLX_API const void *rlx_gpu_state(const rlx_gpu_dispatch *d); /* from prepare */
RLX_API int rlx_gpu_input_count(const rlx_gpu_dispatch *d);
RLX_API int rlx_gpu_output_count(const rlx_gpu_dispatch *d);
/* Dtype, dims, element count; NULL: left out, or not wanted. data: host memory for ports marked RLX_HOST (valid during
 * encode), else NULL: the elements are on the device. */
RLX_API const rlx_operand *rlx_gpu_input(const rlx_gpu_dispatch *d, int i);
RLX_API const rlx_operand *rlx_gpu_output(const rlx_gpu_dispatch *d, int i);
/* Sets a scalar argument, by name, for every later launch of this encode. A value that does not fit the argument's type
 * fails the launch. */
RLX_API void rlx_gpu_set_int(rlx_gpu_dispatch *d, const char *arg, int64_t value);
RLX_API void rlx_gpu_set_float(rlx_gpu_dispatch *d, const char *arg, double value);
RLX_API void rlx_gpu_set_ints(rlx_gpu_dispatch *d, const char *arg, const int64_t *values, int count);
RLX_API void rlx_gpu_set_floats(rlx_gpu_dispatch *d, const char *arg, const double *values, int count);
/* Launches function `function` over groups (each 0 … 65535; none if one is 0). Launches of one encode run in order,
 * each after the writes of those before it. */
RLX_API RLX_MUST_USE rlx_status rlx_gpu_launch(rlx_gpu_dispatch *d, int function, const int64_t groups[3]);

/* ---- registering -------------------------------------------------------------------------- */

enum {
  RLX_REPLACE = 1 /* replace an equal registration instead of failing; logged */
};
typedef uint64_t rlx_handle; /* 0: none */

/* registry NULL: the process's. handle may be NULL. Fails with RLX_DUPLICATE, naming both owners; with
 * RLX_INVALID for a record that breaks a rule, naming it. */
RLX_API RLX_MUST_USE rlx_status rlx_register_op(rlx_registry *registry, const rlx_op *op, uint32_t flags,
                                                rlx_handle *handle);
RLX_API RLX_MUST_USE rlx_status rlx_register_cpu_kernel(rlx_registry *registry, const rlx_cpu_kernel *k, uint32_t flags,
                                                        rlx_handle *handle);
RLX_API RLX_MUST_USE rlx_status rlx_register_host_kernel(rlx_registry *registry, const rlx_host_kernel *k,
                                                         uint32_t flags, rlx_handle *handle);
RLX_API RLX_MUST_USE rlx_status rlx_register_gpu_kernel(rlx_registry *registry, const rlx_gpu_kernel *k, uint32_t flags,
                                                        rlx_handle *handle);
/* Takes one registration back. Sessions and graphs that resolved it keep it. */
RLX_API RLX_MUST_USE rlx_status rlx_unregister(rlx_registry *registry, rlx_handle handle);

/* ---- listing ------------------------------------------------------------------------------ */

/* An op and a kernel as registered; borrowed for the time of the visit. */
typedef struct rlx_op_info {
  uint32_t struct_size;
  const rlx_op *op;
  const char *owner; /* "rlx", the name of a package, "process" or "session" */
} rlx_op_info;
typedef struct rlx_kernel_info {
  uint32_t struct_size;
  const rlx_kernel *head;
  rlx_tier tier;
  const char *backend; /* "cpu", "vulkan", "cuda", "metal", or "gpu": portable, for each of them */
  const char *owner;
} rlx_kernel_info;
/* Visits every op or kernel that is visible from a registry (NULL: the process's), in no order; ends when
 * visit returns false. visit may not register or unregister. Out of memory,
 * nothing is visited. */
RLX_API rlx_status rlx_registry_each_op(const rlx_registry *registry,
                                        bool (*visit)(void *user, const rlx_op_info *info), void *user);
RLX_API rlx_status rlx_registry_each_kernel(const rlx_registry *registry,
                                            bool (*visit)(void *user, const rlx_kernel_info *info), void *user);

/* ---- checking an op ----------------------------------------------------------------------- */

typedef enum rlx_check_outcome {
  RLX_CHECK_PASSED = 0,
  RLX_CHECK_FAILED = 1,
  RLX_CHECK_SKIPPED = 2 /* could not be tested: the message says why */
} rlx_check_outcome;

/* One kind of check on one of the op's ways to run, over all samples. */
typedef struct rlx_check_line {
  rlx_check_outcome outcome;
  int32_t count;        /* cases that came out so */
  const char *check;    /* "infer", "tier", "guard" …: rlx_check_name */
  const char *subject;  /* "cpu onednn", "eval reference"; "" where the op itself is checked */
  const char *sample;   /* the row of the first such case */
  const char *message;  /* of the first: what went wrong, or why it could not be tested; else "" */
  const char *graph;    /* of the first failed case: the text form of its graph; else "" */
  double ulp, relative; /* tier: largest difference from eval, in units of the last place and of the value */
} rlx_check_line;

typedef struct rlx_check_result {
  const char *op;
  int32_t version;
  int32_t passed, failed, skipped; /* cases */
  int32_t sample_count;
  int32_t line_count;
  const rlx_check_line *lines; /* failures first */
} rlx_check_result;

enum {                           /* rlx_check_options.flags */
       RLX_CHECK_IN_PROCESS = 1, /* do not fork: a crash of a kernel is then the caller's (for a debugger) */
       RLX_CHECK_QUICK = 2       /* rows as they are, without variants of extents and dtypes */
};
typedef struct rlx_check_options {
  uint32_t struct_size;
  uint32_t flags;
  rlx_registry *registry; /* NULL: the process's */
  const char *device;     /* NULL: "cpu" */
  int32_t version;        /* of the record; 0: the newest */
  uint64_t seed;          /* of contents and extents */
  int64_t timeout_ms;     /* of one case; 0: 20 s */
  const char *sample;     /* this row instead of the record's; NULL: all */
} rlx_check_options;
#define RLX_CHECK_OPTIONS_INIT {sizeof(rlx_check_options), 0, NULL, NULL, 0, 0, 0, NULL}

/* Checks an op against its own record: see docs/ADDING.md, and rlx_check_name for the kinds of checks. Runs in a child
 * process, so that a kernel that crashes, hangs or aborts is a line of the result. RLX_OK means that the result was
 * made, whatever it says. *out is one block, freed with rlx_free. */
RLX_API RLX_MUST_USE rlx_status rlx_check_op(const char *op, const rlx_check_options *options, rlx_check_result **out);
/* Row i of the table of checks, with a line of help; NULL past the end. */
RLX_API const char *rlx_check_name(int i, const char **help);

/* ---- packages ----------------------------------------------------------------------------- */

/* A package is a shared library exporting `const rlx_package rlx_package_entry` … */
typedef struct rlx_package {
  uint32_t struct_size;
  uint32_t abi; /* RLX_ABI_VERSION */
  const char *name;
  const char *version;
  rlx_status (*register_all)(rlx_registry *registry);
  uint32_t flags;
} rlx_package;
enum {                    /* rlx_package.flags */
       RLX_ON_REQUEST = 1 /* not found by the domain of a model's op: only when named, by rlx_load_package or --ops */
};
/* … written as RLX_PACKAGE("acme", "1.0", register_function); */
#define RLX_PACKAGE(package_name, package_version, function)                                             \
  RLX_PACKAGE_WITH(package_name, package_version, function, 0)
/* The same with flags. */
#define RLX_PACKAGE_WITH(package_name, package_version, function, package_flags)                         \
  RLX_API extern const rlx_package rlx_package_entry;                                                    \
  const rlx_package rlx_package_entry = {sizeof(rlx_package), RLX_ABI_VERSION, package_name,             \
                                         package_version, function, package_flags}

/* ---- session cache ------------------------------------------------------------------------ */

/* A third lifetime: immutable entries of the session, shared by programs and threads, found by content
 * key, bounded in bytes. ctx: an rlx_bound or rlx_ctx. make runs once even under concurrent misses. */
typedef struct rlx_cache_entry {
  void *data;
  int64_t bytes;
  void (*destroy)(void *data);
} rlx_cache_entry;
typedef struct rlx_cache_ref rlx_cache_ref;
RLX_API RLX_MUST_USE rlx_status rlx_cache_get(const void *ctx, const void *key, size_t key_bytes,
                                              rlx_status (*make)(void *arg, rlx_cache_entry *entry), void *arg,
                                              rlx_cache_ref **ref, void **data);
RLX_API void rlx_cache_release(rlx_cache_ref *ref);

#ifdef __cplusplus
}
#endif
#endif
