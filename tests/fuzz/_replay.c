/* _replay.c — a fuzz target without a fuzzer: every file of the folders on the command line, once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  uint8_t *data = NULL;
  long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  if (size >= 0) data = malloc((size_t)size + 1);
  rewind(f);
  int good = data && fread(data, 1, (size_t)size, f) == (size_t)size;
  fclose(f);
  if (good) {
    uint8_t *exact = realloc(data, size ? (size_t)size : 1); /* so that a sanitizer sees a read past the end */
    data = exact ? exact : data;
    LLVMFuzzerTestOneInput(data, (size_t)size);
  }
  free(data);
  return good;
}

int main(int argc, char **argv) {
  int files = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    for (struct dirent *e; folder && (e = readdir(folder));) {
      char path[1024];
      snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
      if (*e->d_name != '.') files += replay(path);
    }
    if (folder) closedir(folder);
  }
  printf("%d files\n", files);
  return files ? 0 : 1;
}
