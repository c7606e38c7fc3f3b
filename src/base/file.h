/* file.h — mapped files and paths. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <rlx/rlx.h>

/* A read-only private mapping of a whole file, with a reference count. */
typedef struct mapped_file {
  const uint8_t *data;
  size_t size;
  char *path;
  int refs;
} mapped_file;

rlx_status mapped_file_open(const char *path, mapped_file **out);
/* A mapping of memory that is copied. */
rlx_status mapped_file_copy(const void *data, size_t size, mapped_file **out);
mapped_file *mapped_file_retain(mapped_file *f);
void mapped_file_release(mapped_file *f);
/* Tells the system that the pages wholly inside [data, data + size) are not needed for now. */
void mapped_file_drop_pages(const mapped_file *f, const void *data, size_t size);
/* Writes a whole file through a temporary name and rename. */
rlx_status file_write(const char *path, const void *data, size_t size);
/* The same from several pieces, one after the other. */
typedef struct file_part {
  const void *data;
  size_t size;
} file_part;
rlx_status file_write_parts(const char *path, const file_part *parts, size_t count);
/* Opens `relative` inside folder `base`, refusing absolute paths, "..", and links that lead out. */
rlx_status file_open_inside(const char *base, const char *relative, mapped_file **out);

#endif
