/*
 * The folders in which `require` of an untrusted script looks.  They are opened once, when the
 * state is made.  Files in them are opened one path component at a time, without following symbolic
 * links: so no name leads out of them.
 */
#ifndef ORR_LUA_ISOLATE_ROOTS_H
#define ORR_LUA_ISOLATE_ROOTS_H

#include "base/alloc.h"
#include "base/log.h"

struct roots;

/*
 * `folders` ends with NULL, and may be NULL.  -ENOMEM; or why a folder cannot be opened, and a line
 * to the log.
 */
int roots_open(const char *const *folders, const struct alloc *alloc, const struct log *log, struct roots **roots_out);

void roots_close(struct roots *roots, const struct alloc *alloc);

unsigned roots_count(const struct roots *roots);

/*
 * Opens a regular file by its path relative to one of them.  A descriptor, or a negative errno;
 * -ELOOP for a symbolic link.
 */
int roots_open_file(const struct roots *roots, unsigned which, const char *path);

/* A file of the host's choice, wherever it is. */
int roots_open_any(const char *path);

#endif
