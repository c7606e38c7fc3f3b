/* cpu.h — the CPU device. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/backend.h"

extern const backend cpu_backend;

#endif
