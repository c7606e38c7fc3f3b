/* library.h — shared libraries opened at run time. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <rlx/rlx.h>

/* RTLD_NOW | RTLD_LOCAL. Fails with NOT_FOUND and the loader's text. */
rlx_status library_open(const char *path, void **handle);
void *library_symbol(void *handle, const char *name); /* NULL if absent */
void library_close(void *handle);
/* The folder of the file that this code was loaded from: librlx.so's, or the program's if it holds the library.
 * False if it is not known or does not fit. */
bool library_own_folder(char *path, size_t size);

#endif
