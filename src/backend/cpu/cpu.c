/* cpu.c — the CPU device: always present. */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/parallel.h"

static int one(void) { return 1; }

static void describe(int i, char *text, size_t size) {
  (void)i;
  char model[128] = "processor";
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[512];
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  if (f) fclose(f);
  snprintf(text, size, "%s, %d cores", model, parallel_cores());
}

static const char *const kernels[] = {"cpu", NULL};
const backend cpu_backend = {"cpu", kernels, NULL, one, describe, NULL};
