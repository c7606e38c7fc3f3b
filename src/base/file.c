/* file.c — mapped files, atomic writing, and paths that must stay inside a folder. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

/* Takes over fd. */
static rlx_status map_fd(int fd, const char *path, mapped_file **out) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return RLX_FAIL(IO, "%s: not a regular file", path);
  }
  mapped_file *f = mem_zalloc(sizeof *f);
  char *copy = f ? mem_strdup(path) : NULL;
  if (!copy) {
    close(fd);
    mem_free(f);
    return status_no_memory(sizeof *f);
  }
  *f = (mapped_file){.size = (size_t)st.st_size, .path = copy, .refs = 1};
  void *data = f->size ? mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  int error = errno;
  close(fd);
  if (data == MAP_FAILED) {
    mem_free(copy);
    mem_free(f);
    return RLX_FAIL(IO, "%s: cannot map: %s", path, strerror(error));
  }
  f->data = data;
  *out = f;
  return RLX_OK;
}

rlx_status mapped_file_open(const char *path, mapped_file **out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
  if (fd < 0) return RLX_FAIL(IO, "%s: %s", path, strerror(errno));
  return map_fd(fd, path, out);
}

rlx_status mapped_file_copy(const void *data, size_t size, mapped_file **out) {
  mapped_file *f = mem_zalloc(sizeof *f);
  void *copy = mem_aligned(64, size);
  if (!f || !copy) {
    mem_free(f);
    mem_free(copy);
    return status_no_memory(size);
  }
  if (size) memcpy(copy, data, size);
  *f = (mapped_file){.data = copy, .size = size, .refs = 1};
  *out = f;
  return RLX_OK;
}

mapped_file *mapped_file_retain(mapped_file *f) {
  if (f) __atomic_fetch_add(&f->refs, 1, __ATOMIC_RELAXED);
  return f;
}

void mapped_file_release(mapped_file *f) {
  if (!f || __atomic_fetch_sub(&f->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (!f->path)
    mem_free((void *)(uintptr_t)f->data);
  else if (f->data)
    munmap((void *)(uintptr_t)f->data, f->size);
  mem_free(f->path);
  mem_free(f);
}

void mapped_file_drop_pages(const mapped_file *f, const void *data, size_t size) {
  if (!f->path || !size) return; /* a copy in memory has nothing to reread from */
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)data + size) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static rlx_status write_all(int fd, const char *path, const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(fd, (const char *)data + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return RLX_FAIL(IO, "%s: %s", path, strerror(errno));
    done += (size_t)n;
  }
  return RLX_OK;
}

rlx_status file_write_parts(const char *path, const file_part *parts, size_t count) {
  char temporary[4096];
  int n = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
  if (n < 0 || (size_t)n >= sizeof temporary) return RLX_FAIL(INVALID, "%s: path too long", path);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return RLX_FAIL(IO, "%s: %s", path, strerror(errno));
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < count && status == RLX_OK; i++) status = write_all(fd, path, parts[i].data, parts[i].size);
  if (close(fd) != 0 && status == RLX_OK) status = RLX_FAIL(IO, "%s: %s", path, strerror(errno));
  if (status == RLX_OK && rename(temporary, path) != 0) status = RLX_FAIL(IO, "%s: %s", path, strerror(errno));
  if (status != RLX_OK) unlink(temporary);
  return status;
}

rlx_status file_write(const char *path, const void *data, size_t size) {
  return file_write_parts(path, &(file_part){data, size}, 1);
}

/* Opens one path component after the other, following no link. Takes over `folder`. */
static int open_below(int folder, char *relative) {
  char *rest = relative;
  for (char *part; (part = strsep(&rest, "/"));) {
    if (!*part || strcmp(part, ".") == 0) continue;
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (rest ? O_DIRECTORY : 0);
    int next = openat(folder, part, flags);
    int error = errno;
    close(folder);
    if (next < 0) {
      errno = error;
      return -1;
    }
    folder = next;
  }
  return folder;
}

rlx_status file_open_inside(const char *base, const char *relative, mapped_file **out) {
  if (!*relative || *relative == '/')
    return RLX_FAIL(INVALID, "external data '%s': the path must be relative to the model", relative);
  for (const char *p = relative; *p; p += strcspn(p, "/"), p += *p == '/')
    if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]))
      return RLX_FAIL(INVALID, "external data '%s' leaves the model's folder", relative);
  char copy[4096];
  if (strlen(relative) >= sizeof copy) return RLX_FAIL(INVALID, "external data: path too long");
  strcpy(copy, relative);
  int folder = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return RLX_FAIL(IO, "%s: %s", base, strerror(errno));
  int fd = open_below(folder, copy);
  if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
    return RLX_FAIL(INVALID, "external data '%s' goes through a link or a file that is no folder", relative);
  if (fd < 0) return RLX_FAIL(IO, "external data '%s': %s", relative, strerror(errno));
  return map_fd(fd, relative, out);
}
