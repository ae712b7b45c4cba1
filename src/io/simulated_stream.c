#include "io/simulated_stream.h"

#include <limits.h>

enum { KEEPALIVE_MAX = 32767 };

/* --- The kinds -------------------------------------------------------------------------------- */

struct simulated {
    struct simulated_end *end;
};

static struct simulated_end *end_of(const struct orr_stream *stream)
{
    return ((const struct simulated *)stream->data)->end;
}

static ssize_t simulated_read(struct orr_stream *stream, const struct iovec *parts, int count)
{
    return end_read(end_of(stream), parts, count);
}

static ssize_t simulated_write(struct orr_stream *stream, const struct iovec *parts, int count)
{
    return end_write(end_of(stream), parts, count);
}

static int simulated_want(struct orr_stream *stream, unsigned events)
{
    end_want(end_of(stream), events);
    return 0;
}

static int simulated_shutdown(struct orr_stream *stream)
{
    return end_shutdown(end_of(stream));
}

static void simulated_close(struct orr_stream *stream)
{
    struct simulated_end *end = end_of(stream);
    ((struct simulated *)stream->data)->end = NULL;
    end->stream = NULL;
    end_close(end);
}

static int simulated_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    return orr_address_print(&end_of(stream)->addresses[end], text, size);
}

int simulated_check_setting(int family, enum orr_setting setting, int64_t value)
{
    if (value < 0 || value > INT_MAX)
        return -EINVAL;
    switch (setting) {
    case ORR_SET_DELAY:
        return family == AF_UNIX ? -ENOTSUP : 0;
    case ORR_SET_KEEPALIVE:
        return family == AF_UNIX ? -ENOTSUP : value > KEEPALIVE_MAX ? -EINVAL : 0;
    case ORR_SET_SEND_BUFFER:
    case ORR_SET_RECEIVE_BUFFER:
        return 0;
    }
    return -ENOTSUP;
}

static int simulated_set(struct orr_stream *stream, enum orr_setting setting, int64_t value)
{
    struct simulated_end *end = end_of(stream);
    int error = simulated_check_setting(address_family(&end->addresses[ORR_LOCAL]), setting, value);
    if (error || setting == ORR_SET_DELAY || setting == ORR_SET_KEEPALIVE)
        return error;
    size_t bytes = value ? (size_t)value : 1; /* the least there is */
    bool receives = setting == ORR_SET_RECEIVE_BUFFER;
    end_set_windows(end, receives ? bytes : 0, receives ? 0 : bytes);
    return 0;
}

#define CONNECTION_KIND(text) \
    { \
        .name = (text), .size = sizeof(struct simulated), .read = simulated_read, .write = simulated_write, \
        .want = simulated_want, .shutdown = simulated_shutdown, .close = simulated_close, \
        .describe = simulated_describe, .set = simulated_set, \
    }

/* By enum end_sort.  Streams of the kernel have the same names. */
static const struct orr_stream_kind kinds[] = {
    [END_TCP] = CONNECTION_KIND("tcp"),
    [END_UNIX] = CONNECTION_KIND("unix"),
    [END_READER] = { .name = "pipe",
                     .size = sizeof(struct simulated),
                     .read = simulated_read,
                     .want = simulated_want,
                     .close = simulated_close },
    [END_WRITER] = { .name = "pipe",
                     .size = sizeof(struct simulated),
                     .write = simulated_write,
                     .want = simulated_want,
                     .close = simulated_close },
};

struct simulated_end *simulated_end_of(const struct orr_stream *stream)
{
    return stream->kind->want == simulated_want && !stream->closed ? end_of(stream) : NULL;
}

/* --- Making them ------------------------------------------------------------------------------ */

int simulated_stream_new(struct simulated_end *end, const struct orr_open *open, struct orr_stream **out)
{
    struct orr_stream *stream;
    int error = stream_make(&kinds[end->sort], open, &stream);
    if (error)
        return error;
    error = end_move_account(end, open ? open->account : NULL);
    if (error) {
        opened_free(&stream->opened);
        return error;
    }
    ((struct simulated *)stream->data)->end = end;
    end->stream = stream;
    *out = stream;
    return 0;
}

/* Makes an open end and its stream, with addresses that have no name. */
static int make_one(struct orr_network_host *host, enum end_sort sort, const struct orr_open *open,
                    struct orr_stream **out)
{
    struct simulated_end *end;
    int error = end_new(host, sort, open ? open->account : NULL, &end);
    if (error)
        return error;
    end->stage = END_OPEN;
    for (enum orr_end side = ORR_LOCAL; side <= ORR_PEER; side++)
        address_from_kernel(&end->addresses[side], &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t));
    error = simulated_stream_new(end, open, out);
    if (error)
        end_close(end);
    return error;
}

static int make_two(struct orr_network_host *host, enum end_sort first, enum end_sort second,
                    const struct orr_open *open, struct orr_stream *ends[2])
{
    struct orr_stream *made[2];
    int error = make_one(host, first, open, &made[0]);
    if (error)
        return error;
    error = make_one(host, second, open, &made[1]);
    if (error) {
        orr_stream_free(made[0]);
        return error;
    }
    end_join(end_of(made[0]), end_of(made[1]));
    ends[0] = made[0];
    ends[1] = made[1];
    return 0;
}

int simulated_pair(struct orr_network_host *host, const struct orr_open *open, struct orr_stream *ends[2])
{
    return make_two(host, END_UNIX, END_UNIX, open, ends);
}

int simulated_pipe(struct orr_network_host *host, const struct orr_open *open, struct orr_stream *ends[2])
{
    return make_two(host, END_READER, END_WRITER, open, ends);
}

int orr_network_reset(struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    if (stream->opened.worker != worker_current)
        return -EPERM;
    if (stream->kind != &kinds[END_TCP])
        return -ENOTSUP;
    if (stream->closed)
        return -EBADF;
    end_reset(end_of(stream));
    return 0;
}
