#include "io/connecting.h"

void connecting_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_stream *stream = wait->source;
    (void)granted;
    stream->waits[SLOT_WRITE] = NULL;
    orr_stream_free(stream);
}

void connecting_describe(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a connection to", text, size);
}
