/*
 * The folders in which `require` of an untrusted script searches.  They are opened once, when the
 * settings of a state are made.  Files in them are opened one path component at a time, without
 * following symbolic links: so no name leads out of them.
 */
#ifndef ORR_LUA_ISOLATE_ROOTS_H
#define ORR_LUA_ISOLATE_ROOTS_H

#include "base/alloc.h"
#include "base/log.h"

struct roots;

/*
 * Opens the folders.  `folders` ends with NULL, and may be NULL; without folders `*roots_out` is
 * NULL.  Returns -ENOMEM, or the errno of a folder that cannot be opened, which is also logged.
 */
int roots_open(const char *const *folders, const struct alloc *alloc, const struct log *log, struct roots **roots_out);

void roots_close(struct roots *roots, const struct alloc *alloc);

unsigned roots_count(const struct roots *roots);

/*
 * Opens a regular file by its path relative to folder number `which`.  Returns a descriptor, or a
 * negative errno.  For a symbolic link: -ELOOP at the end of the path, -ENOTDIR before it.
 */
int roots_open_file(const struct roots *roots, unsigned which, const char *path);

/*
 * Opens a regular file that the host chose, anywhere.  Returns a descriptor, or a negative errno.
 */
int roots_open_any(const char *path);

#endif
