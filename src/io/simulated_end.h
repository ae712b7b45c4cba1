/*
 * An end of a simulated connection, pair or pipe: what has arrived there, and what is on its way.
 *
 * Everything that one end sends is kept at the other end, with the time when it arrives.  So an end
 * that is closed can be freed at once: its last bytes and its end of output are with the peer.  The
 * peer then has no `peer` any more.
 *
 * To an end comes, in this order: the answer to its request for a connection, bytes, the end of the
 * input, a reset.  Times of arrival never decrease.  `alarm` is set for the next arrival, unless a
 * partition holds it back.
 *
 * The bytes are in one buffer, which exists only while there are any: first those that have
 * arrived, then those on their way.  The account of the sender pays for the buffer, and that of the
 * receiver (`pays_itself`) once the sender is closed.  `account` pays for the end itself: that of
 * its stream, or of the listener that it waits at.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_END_H
#define ORR_IO_SIMULATED_END_H

#include "exec/alarm.h"
#include "io/simulated_port.h"
#include "io/stream.h"

enum end_sort {
    END_TCP,
    END_UNIX,
    END_READER, /* of a pipe */
    END_WRITER,
};

enum end_stage {
    END_CALLING, /* its request for a connection is on its way */
    END_IN_LINE, /* its request waits for room in a backlog */
    END_CALLED,  /* the answer is on its way */
    END_OPEN,
};

/* Bytes that arrive together, behind those of the arrival before. */
struct arrival {
    uint64_t at;
    size_t bytes;
};

struct simulated_end {
    struct node node;
    struct alarm alarm;
    struct simulated_end *peer;              /* NULL if there is none yet, or any more */
    const struct orr_network_host *far_host; /* the peer's, also when that one is gone */
    struct orr_stream *stream;               /* NULL as long as nobody has accepted it */
    const struct orr_account *account;
    struct orr_link in_line; /* a listener's */
    enum end_sort sort;
    enum end_stage stage;
    struct orr_address addresses[2]; /* by enum orr_end */

    /* Input. */
    char *bytes;
    size_t start, length, capacity; /* of the buffer */
    size_t arrived;                 /* the first of `length` */
    struct arrival *arrivals;       /* of the rest */
    unsigned first_arrival, arrival_count, arrival_capacity;
    size_t window;        /* the most that `length` can be */
    size_t send_window;   /* the most that `length` of the peer can be; 0: its window */
    uint64_t answer_at;   /* while CALLED */
    uint64_t end_at;      /* ORR_NEVER: the peer has not ended its output, or the end is here */
    uint64_t reset_at;    /* ORR_NEVER: none is on its way */
    uint64_t last_at;     /* when the last of it all arrives */
    uint64_t sent_at;     /* when the sender has put out everything so far */
    size_t unheard;       /* bytes sent since the peer is gone */
    int answer;           /* to its request: 0 or an error */
    uint8_t wanted;       /* events that tasks wait for */
    bool pays_itself : 1; /* see above */
    bool ended : 1;       /* the end of the input has arrived */
    bool reset : 1;
    bool stalled : 1; /* its last write was cut short: the next try waits */
};

/* Makes an end on a host, without addresses and peer.  -ENOMEM, or what the account answered. */
int end_new(struct orr_network_host *host, enum end_sort sort, const struct orr_account *account,
            struct simulated_end **out);

/* Connects two ends.  The second one, which is open then, gets the addresses of the first. */
void end_join(struct simulated_end *a, struct simulated_end *b);

/* Sets how much may be on its way to the end, or from it; 0 changes nothing. */
void end_set_windows(struct simulated_end *end, size_t receive, size_t send);

/* Puts the end on another account.  If that refuses, answers its error; nothing has changed. */
int end_move_account(struct simulated_end *end, const struct orr_account *account);

/* Closes and frees it.  What it has sent still reaches its peer, and then the end of output. */
void end_close(struct simulated_end *end);

/* Frees it, and resets its peer when that news has arrived there. */
void end_abort(struct simulated_end *end);

/* Answers its request for a connection, after the way back. */
void end_answer(struct simulated_end *end, int answer);

/* Breaks its connection now, at both ends. */
void end_reset(struct simulated_end *end);

/* Whether a partition holds back what comes to it. */
bool end_is_cut(const struct simulated_end *end);

/* Whether delays, resets and the like are for it. */
static inline bool end_is_wired(const struct simulated_end *end)
{
    return end->sort == END_TCP;
}

/* For the kinds of streams, as in struct orr_stream_kind. */
ssize_t end_read(struct simulated_end *end, const struct iovec *parts, int count);
ssize_t end_write(struct simulated_end *end, const struct iovec *parts, int count);
void end_want(struct simulated_end *end, unsigned events);
int end_shutdown(struct simulated_end *end);

#endif
