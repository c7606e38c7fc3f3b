/* package.c — finding, opening and registering packages. */
#include "ir/package.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "ir/registry.h"

static _Thread_local package *current;

package *package_current(void) { return current; }

package *package_retain(package *p) {
  if (p) __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
  return p;
}

void package_release(package *p) {
  if (!p || __atomic_fetch_sub(&p->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  mem_free(p->name);
  mem_free(p->version);
  mem_free(p->path);
  mem_free(p);
}

static bool plain_name(const char *name) {
  if (!*name || *name == '.') return false;
  for (const char *p = name; *p; p++) {
    bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
    if (!word && !strchr("._-", *p)) return false;
  }
  return true;
}

rlx_status package_find(const char *name, char *path, size_t size) {
  if (!plain_name(name)) return RLX_FAIL(INVALID, "package '%s': not a package name", name);
  const char *search = option_get(OPTION_PACKAGE_PATH);
  while (search && *search) {
    size_t n = strcspn(search, ":");
    int len = snprintf(path, size, "%.*s/librlx-%s.so", (int)n, search, name);
    if (n && len > 0 && (size_t)len < size && access(path, R_OK) == 0) return RLX_OK;
    search += n + (search[n] == ':');
  }
  char folder[PATH_MAX];
  if (!library_own_folder(folder, sizeof folder))
    return RLX_FAIL(NOT_FOUND, "package '%s': no librlx-%s.so on RLX_PACKAGE_PATH", name, name);
  int len = snprintf(path, size, "%s/rlx/librlx-%s.so", folder, name);
  if (len > 0 && (size_t)len < size && access(path, R_OK) == 0) return RLX_OK;
  return RLX_FAIL(NOT_FOUND, "package '%s': no librlx-%s.so on RLX_PACKAGE_PATH or in %s/rlx", name, name, folder);
}

static rlx_status open_package(const char *path, package **out, const rlx_package **entry) {
  void *library;
  RLX_TRY(library_open(path, &library));
  const rlx_package *e = library_symbol(library, "rlx_package_entry");
  rlx_status status = RLX_OK;
  if (!e)
    status = RLX_FAIL(INVALID, "%s: not an rlx package: it exports no rlx_package_entry", path);
  else if (e->struct_size < offsetof(rlx_package, flags))
    status = RLX_FAIL(INVALID, "%s: its package record has %u bytes, %zu are needed", path, e->struct_size,
                      offsetof(rlx_package, flags));
  else if (e->struct_size > 4096)
    status =
        RLX_FAIL(INVALID, "%s: its package record says %u bytes, which no version of it has", path, e->struct_size);
  else if (e->abi != RLX_ABI_VERSION)
    status = RLX_FAIL(INVALID, "%s: built for ABI %u, this library has ABI %d", path, e->abi, RLX_ABI_VERSION);
  else if (!e->name || !e->version || !e->register_all)
    status = RLX_FAIL(INVALID, "%s: its package record lacks name, version or register function", path);
  if (status != RLX_OK) {
    library_close(library);
    return status;
  }
  package *p = mem_zalloc(sizeof *p);
  if (!p) return status_no_memory(sizeof *p);
  *p = (package){.refs = 1, .library = library};
  p->name = mem_strdup(e->name);
  p->version = mem_strdup(e->version);
  p->path = mem_strdup(path);
  if (!p->name || !p->version || !p->path) {
    package_release(p);
    return status_no_memory(1);
  }
  *out = p;
  *entry = e;
  return RLX_OK;
}

static bool on_request(const rlx_package *e) { return e->struct_size >= sizeof *e && (e->flags & RLX_ON_REQUEST) != 0; }

rlx_status package_load(rlx_registry *r, const char *name_or_file, bool asked) {
  if (!name_or_file) return RLX_FAIL(INVALID, "load package: no name");
  char found[PATH_MAX], path[PATH_MAX];
  const char *file = name_or_file;
  if (!strchr(name_or_file, '/')) {
    RLX_TRY(package_find(name_or_file, found, sizeof found));
    file = found;
  }
  if (!realpath(file, path)) return RLX_FAIL(NOT_FOUND, "package '%s': no such file", name_or_file);
  if (!r) r = rlx_registry_process();
  if (!r) return status_no_memory(1);
  if (registry_has_package(r, path)) return RLX_OK;
  package *p = NULL;
  const rlx_package *entry = NULL;
  RLX_TRY(open_package(path, &p, &entry));
  if (!asked && on_request(entry)) {
    rlx_status refused = RLX_FAIL(NOT_FOUND, "package '%s' (%s) is registered only when it is named", p->name, path);
    package_release(p);
    return refused;
  }
  package *before = current;
  current = p;
  rlx_status status = entry->register_all(r);
  current = before;
  if (status == RLX_OK) status = registry_add_package(r, p);
  if (status != RLX_OK) {
    char text[STATUS_TEXT_BYTES];
    status_save(text);
    registry_drop_package(r, p);
    status_restore(text);
    status = status_prefix(status, "package '%s' (%s)", p->name, path);
  }
  package_release(p);
  return status;
}

bool package_waits(const char *op_name, char *path, size_t size) {
  char domain[128];
  size_t length = op_domain_length(op_name);
  if (length == 0 || length >= sizeof domain) return false;
  snprintf(domain, sizeof domain, "%.*s", (int)length, op_name);
  package *p;
  const rlx_package *entry;
  if (package_find(domain, path, size) != RLX_OK || open_package(path, &p, &entry) != RLX_OK) return false;
  package_release(p);
  return on_request(entry);
}

rlx_status rlx_load_package(rlx_registry *r, const char *name_or_file) { return package_load(r, name_or_file, true); }
