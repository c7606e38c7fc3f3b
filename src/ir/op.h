/* op.h — registered records: what rlx_register_* keeps. */
#ifndef IR_OP_H
#define IR_OP_H

#include <rlx/extend.h>

#include "base/arena.h"

typedef enum kernel_kind { KERNEL_CPU = 0, KERNEL_HOST = 1, KERNEL_PORTABLE = 2, KERNEL_RAW = 3 } kernel_kind;

/* The package (shared library) a record came from; NULL for built-ins and direct registrations. Keeps
 * the library open. Reference-counted. */
typedef struct package package;

/* Scope of a registration, lower is nearer. */
enum { SCOPE_SESSION = 0, SCOPE_PACKAGE = 1, SCOPE_PROCESS = 2 };

/* An op record as registered: immutable, reference-counted; everything in its arena. Graphs and
 * sessions hold references. */
typedef struct op_entry {
  int refs;
  rlx_op op;
  int input_count, output_count, attr_count; /* lengths of the record's lists */
  int input_min;                             /* inputs that may not be left out */
  bool input_variadic, output_variadic;
  rlx_handle handle;
  int scope;
  bool builtin;
  const char *owner; /* "rlx", a package's name, "process", "session" */
  package *from;
  arena memory;
} op_entry;

/* A kernel record as registered. The full native record is kept in `record`. */
typedef struct kernel_entry {
  int refs;
  kernel_kind kind;
  const char *backend;             /* "cpu", "vulkan", "cuda", "metal", "gpu" (portable) */
  rlx_kernel head;                 /* strings and lists in the arena */
  rlx_status (*run)(rlx_ctx *ctx); /* KERNEL_CPU, KERNEL_HOST */
  const void *record;              /* a copy of the whole record, for the backend */
  rlx_handle handle;
  uint64_t sequence; /* later registrations have higher numbers */
  int scope;
  bool builtin;
  const char *owner;
  package *from;
  arena memory;
} kernel_entry;

op_entry *op_entry_retain(op_entry *e);
void op_entry_release(op_entry *e);
kernel_entry *kernel_entry_retain(kernel_entry *e);
void kernel_entry_release(kernel_entry *e);

/* Port of input or output i, variadic ports repeated; NULL past the end. */
const rlx_port *op_input_port(const op_entry *e, int i);
const rlx_port *op_output_port(const op_entry *e, int i);

/* "onnx.Softmax" → domain "onnx" (length returned), local name "Softmax". */
size_t op_domain_length(const char *name);

#endif
