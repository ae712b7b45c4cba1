/*
 * Streams of files on disk.  All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_FILE_H
#define ORR_IO_FILE_H

#include "io/open_file.h"
#include "io/stream.h"

/* The file behind a stream of a file or a directory; NULL if it is of another kind. */
struct open_file *open_file_of(const struct orr_stream *stream);

#endif
