/*
 * The buffers of C's standard streams, for streams of the same descriptors.
 *
 * io.write() leaves bytes in C's buffer; a stream that writes to the same descriptor must let them
 * go first.  io.read() reads ahead; a stream that reads from the same descriptor must take what is
 * left of it first.  Bytes leave the buffer of C only when they are out, so C's own order stays.
 *
 * No function waits for the descriptor.  Another thread may have the lock of C's stream while it
 * waits for its own output.  Then its buffer is left alone after a moment: order with what another
 * thread prints meanwhile is not promised.  Any thread.
 */
#ifndef ORR_IO_STDIO_BUFFER_H
#define ORR_IO_STDIO_BUFFER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/uio.h>

/* C's stream for descriptor 0, 1 or 2. */
FILE *stdio_file(int descriptor);

/* Whether C uses the descriptor itself: the host may have put another stream in its place. */
bool stdio_uses(FILE *file, int descriptor);

/* Bytes that are in the buffer: read ahead, or not written yet. */
size_t stdio_held(FILE *file);

/*
 * Gets the bytes that are not written yet.  Returns true if there are some; then the file is locked
 * until stdio_unlock_output(), which takes out as many as were written.
 */
bool stdio_lock_output(FILE *file, struct iovec *bytes);
void stdio_unlock_output(FILE *file, size_t written);

/*
 * Writes to a stream that the host has put in the place of C's own, as print() does.  Returns how
 * many bytes; negative errno.
 */
ssize_t stdio_write(FILE *file, const struct iovec *parts, int count);

/* As fflush(), for a file on disk, which does not wait for a reader.  Negative errno. */
int stdio_flush(FILE *file);

/* Moves bytes that were read ahead into the buffer; returns how many. */
size_t stdio_take_input(FILE *file, void *buffer, size_t size);

#endif
