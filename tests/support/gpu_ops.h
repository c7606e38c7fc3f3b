/* gpu_ops.h — ops for tests of the executor: some with a native kernel on every GPU backend, some for the host. */
#ifndef SUPPORT_GPU_OPS_H
#define SUPPORT_GPU_OPS_H

#include <rlx/extend.h>

/* Registers them in the process registry, once:
 *   test.turn(X) Y         device: X turned round by one element
 *   test.mix(A, B) Y       device: the second half of B, then the first half of A (of an even number of elements)
 *   test.bad(X) Y          device: like turn; encoding fails while gpu_ops_fail is set
 *   test.once(X) Y         device: like turn; not replayable
 *   test.rude(X) Y         device, on Vulkan: ends the command buffer
 *   test.host(X) Y         host: 2 X + 1
 *   test.ready(X) Y        like host, by a CPU kernel with state and workspace; a host kernel counts and delegates to
 * it test.both(A, B) Y      host: A + 2 B test.note(X) Y         host, with a side effect: adds X[0] to gpu_ops_notes
 *   test.stop(X) Y         host: like host; fails while gpu_ops_fail is set
 *   test.positive(X) Y     host: the elements above 0 */
int gpu_ops_register(void **state);
extern bool gpu_ops_fail;
extern float gpu_ops_notes[64];
extern int gpu_ops_note_count, gpu_ops_delegated;

/* The devices to test on that are here; NULL past the end. debug: the switches that go with it. */
typedef struct gpu_place_row {
  const char *device, *debug;
} gpu_place_row;
const gpu_place_row *gpu_ops_device(int i);

#endif
