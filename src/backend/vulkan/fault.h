/* fault.h — faults on request, for tests. */
#ifndef BACKEND_VULKAN_FAULT_H
#define BACKEND_VULKAN_FAULT_H

/* The n-th submission from now loses its device, as far as rlx can tell; 0: none does. */
void vulkan_simulate_loss(int submissions);

#endif
