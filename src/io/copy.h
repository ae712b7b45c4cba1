/* What the library wants to know about copies of streams.  The worker's thread. */
#ifndef ORR_IO_COPY_H
#define ORR_IO_COPY_H

#include "orrery.h"

/* The stream that an error of orr_stream_copy() comes from; NULL for an error of the task. */
const struct orr_stream *copy_culprit(const struct orr_stream *from, const struct orr_stream *to, int error);

#endif
