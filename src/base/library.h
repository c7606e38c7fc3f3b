/* library.h — shared libraries opened at run time. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <rlx/rlx.h>

/* RTLD_NOW | RTLD_LOCAL. Fails with NOT_FOUND and the loader's text. */
rlx_status library_open(const char *path, void **handle);
void *library_symbol(void *handle, const char *name); /* NULL if absent */
void library_close(void *handle);

#endif
