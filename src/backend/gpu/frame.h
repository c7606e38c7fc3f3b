/* frame.h — a stage's recorded lists, argument blocks and addresses in one run state. */
#ifndef BACKEND_GPU_FRAME_H
#define BACKEND_GPU_FRAME_H

#include "backend/gpu/steps.h"

/* Argument blocks are cut from buffers of this size; a larger block has one of its own. */
enum { GPU_TABLE_BYTES = 64 << 10 };

/* The argument block of one launch, in memory that kernels read. */
typedef struct gpu_arguments {
  gpu_buffer *buffer;
  int64_t offset;
  int32_t bytes, next; /* of the next launch of the step, or -1 */
} gpu_arguments;

/* A word of an argument block that holds an operand's address. */
typedef struct gpu_cell {
  uint64_t *word;
  const gpu_ref *operand;
  int64_t offset;
} gpu_cell;

typedef struct gpu_table {
  gpu_buffer buffer;
  int64_t used;
} gpu_table;

struct gpu_frame {
  const gpu_stage *stage;
  gpu_session *session;
  gpu_list **lists;   /* per segment */
  bool *recorded;     /* per segment: its list is good for the addresses as they are */
  uint64_t *tickets;  /* per segment, of this run */
  gpu_place arena;    /* where the addresses are for */
  gpu_place *places;  /* per location, likewise */
  gpu_memory **homes; /* per location: memory for what is bound on the host; made when needed */
  void **bound;       /* per location: what was bound, while the slot shows the home */
  gpu_place *hidden;  /* per location: the application's memory that a home stands for, since host steps touch it too */
  bool *moved;        /* per location and, last, the arena: another place than in the run before */
  gpu_span *spans;    /* per operand of the stage */
  rlx_operand *operands;    /* per operand: as described, with the host's address where it is known to hold the value */
  gpu_list *before, *after; /* transfers of what is bound on the host; on a discrete device only */
  uint64_t last;            /* newest ticket */
  VECTOR(gpu_table *) tables;
  VECTOR(gpu_arguments) arguments;
  VECTOR(gpu_cell) cells;
  int *first_arguments; /* per step: those of its first launch, or -1 */
  bool started;
};

/* Fills `out` for device step t. */
void gpu_frame_operands(const gpu_frame *f, int t, gpu_operands *out);
gpu_span gpu_frame_span(const gpu_frame *f, const gpu_ref *r);

/* dispatch.c: records the launches of a portable kernel. */
rlx_status gpu_encode_portable(gpu_frame *f, gpu_list *list, int t);
/* Writes the operands' addresses into every argument block again. */
void gpu_rewrite_arguments(gpu_frame *f);
void gpu_arguments_finish(gpu_frame *f);

#endif
