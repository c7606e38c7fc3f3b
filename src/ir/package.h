/* package.h — shared libraries of ops. */
#ifndef IR_PACKAGE_H
#define IR_PACKAGE_H

#include "ir/op.h"

/* An opened package. Never unmapped; the object goes with its last reference. */
struct package {
  int refs;
  char *name, *version, *path; /* owned */
  void *library;
};

package *package_retain(package *p);
void package_release(package *p);
/* The package whose register function runs on this thread, or NULL. */
package *package_current(void);
/* Finds the file of a package by name: on RLX_PACKAGE_PATH, then in the folder rlx/ beside librlx.so. NOT_FOUND without
 * it. */
rlx_status package_find(const char *name, char *path, size_t size);
/* rlx_load_package; not asked: a package that is registered only on request is NOT_FOUND. */
rlx_status package_load(rlx_registry *r, const char *name_or_file, bool asked);
/* True if a package of the op's domain is on the package path, but registered only on request; path: its file. */
bool package_waits(const char *op_name, char *path, size_t size);

#endif
