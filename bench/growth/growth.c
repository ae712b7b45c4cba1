/*
 * What one operation costs when there are many: tasks, siblings, timers, connections.  One run
 * measures one number of them.  bench/growth/measure runs it for ten to a million, beside peers.
 *
 *     growth N     prints lines "plot series n value"; values are nanoseconds or bytes
 *
 * Short passes are repeated, and measured with the monotonic clock, because reading the thread's
 * CPU time takes longer than some of them.  Long passes are measured in CPU time, so that other
 * processes do not count.  A figure is the median of the passes.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_UV
#include <uv.h>
#endif
#ifdef HAVE_EV
#include <ev.h>
#endif

enum { LONG_PASS = 2000, PASSES_MAX = 101, SPREAD_MS = 60000 };

static unsigned count;

static uint64_t now(void)
{
    return count >= LONG_PASS ? bench_cpu_now() : bench_now();
}

static unsigned passes(void)
{
    return count >= 1000000 ? 1 : count >= 100000 ? 3 : count >= LONG_PASS ? 9 : PASSES_MAX;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned length)
{
    qsort(values, length, sizeof *values, by_value);
    return values[length / 2];
}

static void print(const char *plot, const char *series, unsigned n, double value)
{
    printf("%s\t%s\t%u\t%.1f\n", plot, series, n, value);
    fflush(stdout);
}

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % below);
}

static void *array(size_t length, size_t size)
{
    void *block = calloc(length, size);
    if (!block) {
        fprintf(stderr, "growth: no memory for %zu\n", length);
        exit(1);
    }
    return block;
}

/* --- Tasks ------------------------------------------------------------------------------------ */

/* Waits for the gate to open, and ends. */
struct idler {
    struct orr_task *task;
    struct orr_wait wait;
};

static struct orr_event *gate;
static unsigned idle_now;

static enum orr_poll idle(struct orr_task *task, void *data)
{
    struct idler *self = data;
    int error = orr_event_wait(task, &self->wait, gate);
    if (error != -EAGAIN)
        return ORR_DONE;
    idle_now++;
    return ORR_PENDING;
}

static enum orr_poll finish(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

/* The task that starts and awaits the others, between its polls. */
struct starter {
    enum { START, SETTLE, BESIDE, OPEN, AWAIT } phase;
    struct idler *idlers;
    struct orr_wait wait;
    struct orr_task *child;
    unsigned done;
    uint64_t began;
    double ns_start, ns_child, ns_end, bytes;
};

enum { CHILDREN = 20000 };

static bool await(struct orr_task *task, struct starter *self, struct orr_task *child)
{
    int error = orr_task_await(task, &self->wait, child);
    if (error == -EAGAIN)
        return false;
    bench_must(error, "orr_task_await");
    orr_task_unref(child);
    self->done++;
    return true;
}

static void start_child(struct orr_task *task, orr_poll_fn *poll, void *data, struct orr_task **child)
{
    struct orr_spawn what = { .poll = poll, .data = data, .task = child };
    bench_must(orr_spawn(orr_task_runtime(task), &what), "orr_spawn");
}

static enum orr_poll start_poll(struct orr_task *task, void *data)
{
    struct starter *self = data;
    switch (self->phase) {
    case START:
        self->began = now();
        for (unsigned i = 0; i < count; i++)
            start_child(task, idle, &self->idlers[i], &self->idlers[i].task);
        self->phase = SETTLE;
        /* fall through */
    case SETTLE:
        if (idle_now < count)
            return orr_task_yield(task);
        self->ns_start = (double)(now() - self->began);
        self->bytes = (double)bench_allocated;
        self->phase = BESIDE;
        self->began = bench_cpu_now();
        /* fall through */
    case BESIDE:
        while (self->done < CHILDREN) {
            if (!self->child)
                start_child(task, finish, NULL, &self->child);
            if (!await(task, self, self->child))
                return ORR_PENDING;
            self->child = NULL;
        }
        self->ns_child = (double)(bench_cpu_now() - self->began) / CHILDREN;
        self->phase = OPEN;
        /* fall through */
    case OPEN:
        self->done = 0;
        self->began = now();
        orr_event_set(gate);
        self->phase = AWAIT;
        /* fall through */
    default:
        while (self->done < count)
            if (!await(task, self, self->idlers[self->done].task))
                return ORR_PENDING;
        self->ns_end = (double)(now() - self->began);
        return ORR_DONE;
    }
}

static void measure_tasks(void)
{
    double each[PASSES_MAX], child[PASSES_MAX], bytes = 0;
    for (unsigned i = 0; i < passes(); i++) {
        struct starter self = { .idlers = array(count, sizeof *self.idlers) };
        struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .alloc = bench_alloc });
        size_t before = bench_allocated;
        bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
        bench_must(orr_event_new(&gate), "orr_event_new");
        idle_now = 0;
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = start_poll, .data = &self }), "orr_spawn");
        bench_run(rt);
        bench_must(orr_event_free(gate), "orr_event_free");
        bench_close(rt);
        free(self.idlers);
        each[i] = (self.ns_start + self.ns_end) / count;
        child[i] = self.ns_child;
        bytes = (self.bytes - (double)before) / count + sizeof(struct orr_wait);
    }
    print("tasks", "Orrery, C", count, median(each, passes()));
    print("siblings", "Orrery, C", count, median(child, passes()));
    print("memory", "Orrery, C", count, bytes);
}

/* --- Timers ----------------------------------------------------------------------------------- */

enum { INSERT, REARM, FIRE, OPERATIONS };
static const char *const plots[] = { "insert", "rearm", "fire" };
static double figures[OPERATIONS][PASSES_MAX];
static uint32_t *delays, *order; /* milliseconds; a random order */
static unsigned fired;

static void shuffle(void)
{
    for (unsigned i = 0; i < count; i++) {
        delays[i] = 1 + random_below(SPREAD_MS);
        order[i] = i;
    }
    for (unsigned i = count; i-- > 1;) {
        unsigned other = random_below(i + 1);
        uint32_t swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}

static void note(int operation, unsigned pass, uint64_t began)
{
    figures[operation][pass] = (double)(now() - began) / count;
}

/* Runs passes of one implementation, and prints them.  Passes that wait for real time are few. */
static void contest(const char *series, void (*pass)(unsigned), unsigned most)
{
    unsigned many = passes() < most ? passes() : most;
    for (unsigned i = 0; i < many; i++) {
        shuffle();
        pass(i);
    }
    for (int operation = 0; operation < OPERATIONS; operation++)
        print(plots[operation], series, count, median(figures[operation], many));
}

static struct orr_timer **ours;

static void our_fire(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)data;
    fired += status == 0;
}

static enum orr_poll start_ours(struct orr_task *task, void *data)
{
    unsigned pass = *(unsigned *)data;
    struct orr_runtime *rt = orr_task_runtime(task);
    uint64_t base = orr_runtime_now(rt);
    for (unsigned i = 0; i < count; i++)
        bench_must(orr_timer_new(rt, &(struct orr_timer_options){ .fire = our_fire, .local = true }, &ours[i]),
                   "orr_timer_new");
    uint64_t began = now();
    for (unsigned i = 0; i < count; i++)
        orr_timer_start_at(ours[i], base + delays[i] * 1000000ull, 0);
    note(INSERT, pass, began);
    began = now();
    for (unsigned i = 0; i < count; i++)
        orr_timer_start_at(ours[order[i]], base + delays[i] * 1000000ull, 0);
    note(REARM, pass, began);
    return ORR_DONE;
}

static void pass_ours(unsigned pass)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .clock = ORR_CLOCK_MANUAL });
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = start_ours, .data = &pass }), "orr_spawn");
    bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    fired = 0;
    orr_runtime_advance(rt, (SPREAD_MS + 1) * 1000000ull);
    uint64_t began = now();
    while (fired < count)
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    note(FIRE, pass, began);
    for (unsigned i = 0; i < count; i++)
        orr_timer_free(ours[i]);
    orr_runtime_free(rt);
}

/* The peers' timers fire by the real clock: within 60 ms, and after that all are due. */
enum { REAL_PASSES = 9, SHORTER = 1000 };

#if defined(HAVE_UV) || defined(HAVE_EV)
static void wait_until_due(void)
{
    struct timespec pause = { 0, (SPREAD_MS / SHORTER + 2) * 1000000 };
    nanosleep(&pause, NULL);
    fired = 0;
}
#endif

#ifdef HAVE_UV
static void uv_fire(uv_timer_t *timer)
{
    (void)timer;
    fired++;
}

static void pass_uv(unsigned pass)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    uv_timer_t *timers = array(count, sizeof *timers);
    for (unsigned i = 0; i < count; i++)
        uv_timer_init(&loop, &timers[i]);
    uint64_t began = now();
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&timers[i], uv_fire, delays[i], 0);
    note(INSERT, pass, began);
    began = now();
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&timers[order[i]], uv_fire, delays[i], 0);
    note(REARM, pass, began);
    uv_update_time(&loop);
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&timers[i], uv_fire, delays[i] / SHORTER, 0);
    wait_until_due();
    began = now();
    while (fired < count)
        uv_run(&loop, UV_RUN_NOWAIT);
    note(FIRE, pass, began);
    for (unsigned i = 0; i < count; i++)
        uv_close((uv_handle_t *)&timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(timers);
}
#endif

#ifdef HAVE_EV
static void ev_fire(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events;
    fired++;
}

static void pass_ev(unsigned pass)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ev_timer *timers = array(count, sizeof *timers);
    for (unsigned i = 0; i < count; i++)
        ev_init(&timers[i], ev_fire);
    uint64_t began = now();
    for (unsigned i = 0; i < count; i++) {
        ev_timer_set(&timers[i], delays[i] / 1000.0, 0.0);
        ev_timer_start(loop, &timers[i]);
    }
    note(INSERT, pass, began);
    began = now();
    for (unsigned i = 0; i < count; i++) {
        timers[order[i]].repeat = delays[i] / 1000.0;
        ev_timer_again(loop, &timers[order[i]]);
    }
    note(REARM, pass, began);
    for (unsigned i = 0; i < count; i++)
        ev_timer_stop(loop, &timers[i]);
    ev_now_update(loop);
    for (unsigned i = 0; i < count; i++) {
        ev_timer_set(&timers[i], delays[i] / 1000.0 / SHORTER, 0.0);
        ev_timer_start(loop, &timers[i]);
    }
    wait_until_due();
    began = now();
    while (fired < count)
        ev_run(loop, EVRUN_NOWAIT);
    note(FIRE, pass, began);
    ev_loop_destroy(loop);
    free(timers);
}
#endif

static void measure_timers(void)
{
    delays = array(count, sizeof *delays);
    order = array(count, sizeof *order);
    ours = array(count, sizeof *ours);
    contest("Orrery, C", pass_ours, PASSES_MAX);
#ifdef HAVE_UV
    contest("libuv", pass_uv, REAL_PASSES);
#endif
#ifdef HAVE_EV
    contest("libev", pass_ev, REAL_PASSES);
#endif
    free(delays);
    free(order);
    free(ours);
}

/* --- Connections ------------------------------------------------------------------------------ */

/*
 * TCP connections on the loopback.  All are watched.  A batch of bytes is written to some of them,
 * chosen at random, and the loop runs until all are read.  A figure includes the write(2) and the
 * read(2) of one byte.  Every reader has room for more than that, as servers have.
 *
 * Ours read by streams, which keep their descriptor watched, as the peers do; and by single
 * operations, each of which must find out whether its number still names the same file.
 */
enum { BATCH = 100, MESSAGES = 20000, SPARE_DESCRIPTORS = 100, ROOM = 64 };

static int (*pairs)[2];
static unsigned connections, received;

static void write_batch(unsigned length)
{
    unsigned first = random_below(connections);
    received = 0;
    for (unsigned i = 0; i < length; i++)
        if (write(pairs[(first + i * 7919u) % connections][1], "x", 1) != 1)
            perror("write");
}

static unsigned batch_length(void)
{
    return connections < BATCH ? connections : BATCH;
}

/* The median of the batches. */
static void measure_batches(const char *series, void (*run)(void *loop), void *loop)
{
    enum { BATCHES = MESSAGES / BATCH };
    double took[BATCHES];
    for (unsigned i = 0; i < BATCHES; i++) {
        uint64_t began = bench_cpu_now();
        write_batch(batch_length());
        while (received < batch_length())
            run(loop);
        took[i] = (double)(bench_cpu_now() - began) / batch_length();
    }
    print("connections", series, connections, median(took, BATCHES));
}

struct reader {
    struct orr_io io;
    struct orr_stream *stream;
    struct orr_wait wait;
    int fd;
    char bytes[ROOM];
};

static enum orr_poll read_by_stream(struct orr_task *task, void *data)
{
    struct reader *self = data;
    if (!self->stream) {
        struct orr_descriptor_options options = { .keep = true };
        bench_must(orr_stream_open_descriptor(self->fd, &options, &self->stream), "orr_stream_open_descriptor");
    }
    for (;;) {
        size_t got;
        int error = orr_stream_read(task, &self->wait, self->stream, self->bytes, ROOM, &got);
        if (error == -EAGAIN)
            return ORR_PENDING;
        if (error)
            return ORR_DONE; /* the runtime closes, and frees the stream */
        received += got == 1;
    }
}

static enum orr_poll read_by_operations(struct orr_task *task, void *data)
{
    struct reader *self = data;
    for (;;) {
        if (self->io.task && !orr_io_done(&self->io))
            return ORR_PENDING;
        received += self->io.task != NULL;
        if (orr_io_read(task, &self->io, self->fd, self->bytes, ROOM) < 0)
            return ORR_DONE; /* the runtime closes */
    }
}

static void run_ours(void *rt)
{
    bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
}

static void measure_ours(const char *series, enum orr_reactor reactor, orr_poll_fn *read_all)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = reactor });
    if (!rt) {
        printf("# %s: not available here\n", series);
        return;
    }
    struct reader *readers = array(connections, sizeof *readers);
    for (unsigned i = 0; i < connections; i++) {
        readers[i].fd = pairs[i][0];
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = read_all, .data = &readers[i] }), "orr_spawn");
    }
    for (int i = 0; i < 1000 && orr_runtime_turn(rt, ORR_NEVER) > 0; i++)
        continue;
    measure_batches(series, run_ours, rt);
    orr_runtime_free(rt);
    free(readers);
}

#if defined(HAVE_UV) || defined(HAVE_EV)
static void read_byte(int fd)
{
    char bytes[ROOM];
    received += read(fd, bytes, ROOM) == 1;
}
#endif

#ifdef HAVE_UV
static void uv_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    read_byte(*(int *)poll->data);
}

static void run_uv(void *loop)
{
    uv_run(loop, UV_RUN_NOWAIT);
}

static void measure_uv(void)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    uv_poll_t *polls = array(connections, sizeof *polls);
    for (unsigned i = 0; i < connections; i++) {
        uv_poll_init(&loop, &polls[i], pairs[i][0]);
        polls[i].data = &pairs[i][0];
        uv_poll_start(&polls[i], UV_READABLE, uv_readable);
    }
    uv_run(&loop, UV_RUN_NOWAIT);
    measure_batches("libuv", run_uv, &loop);
    for (unsigned i = 0; i < connections; i++)
        uv_close((uv_handle_t *)&polls[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(polls);
}
#endif

#ifdef HAVE_EV
static void ev_readable(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    (void)events;
    read_byte(io->fd);
}

static void run_ev(void *loop)
{
    ev_run(loop, EVRUN_NOWAIT);
}

static void measure_ev(void)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ev_io *ios = array(connections, sizeof *ios);
    for (unsigned i = 0; i < connections; i++) {
        ev_io_init(&ios[i], ev_readable, pairs[i][0], EV_READ);
        ev_io_start(loop, &ios[i]);
    }
    ev_run(loop, EVRUN_NOWAIT);
    measure_batches("libev", run_ev, loop);
    ev_loop_destroy(loop);
    free(ios);
}
#endif

/* As many connections as descriptors allow, up to `count`; 0 if that was measured before. */
static unsigned connections_allowed(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    /* A stream has a descriptor of its own. */
    unsigned most = limit.rlim_max > 6000000 ? 2000000 : (unsigned)(limit.rlim_max - SPARE_DESCRIPTORS) / 3;
    if (count <= most)
        return count;
    printf("# connections: the limit of descriptors is %lu, so %u are the most\n", (unsigned long)limit.rlim_max, most);
    return count / 10 < most ? most : 0;
}

/* A connection on the loopback: the reader's end, and the writer's.  -1, and errno. */
static int connect_pair(int listener, int ends[2])
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[1] < 0 || getsockname(listener, (struct sockaddr *)&address, &length) < 0 ||
        connect(ends[1], (struct sockaddr *)&address, length) < 0)
        return -1;
    ends[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int at_once = 1;
    return ends[0] < 0 ? -1 : setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
}

/* A new connection acknowledges each segment at once, which costs more.  This ends that. */
static void use_pair(const int ends[2])
{
    enum { SEGMENTS = 40 };
    char byte = 'x';
    for (int i = 0; i < SEGMENTS; i++)
        if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
            perror("connections");
}

static void measure_connections(void)
{
    connections = connections_allowed();
    if (!connections)
        return;
    pairs = array(connections, sizeof *pairs);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    listen(listener, 1);
    for (unsigned i = 0; i < connections; i++)
        if (connect_pair(listener, pairs[i]) < 0) {
            printf("# connections: %s after %u\n", strerror(errno), i);
            connections = i;
            break;
        }
    close(listener);
    for (unsigned i = 0; i < connections; i++)
        use_pair(pairs[i]);
#ifdef HAVE_UV
    measure_uv();
#endif
#ifdef HAVE_EV
    measure_ev();
#endif
    measure_ours("Orrery, epoll", ORR_REACTOR_EPOLL, read_by_stream);
    measure_ours("Orrery, io_uring", ORR_REACTOR_URING, read_by_stream);
    measure_ours("orr_io_read, epoll", ORR_REACTOR_EPOLL, read_by_operations);
    measure_ours("orr_io_read, io_uring", ORR_REACTOR_URING, read_by_operations);
    for (unsigned i = 0; i < connections; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
    free(pairs);
}

int main(int argc, char **argv)
{
    count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    if (count < 1 || count > 10000000) {
        fprintf(stderr, "usage: growth N, from 1 to 10000000\n");
        return 2;
    }
    measure_connections();
    measure_tasks();
    measure_timers();
#ifndef HAVE_UV
    printf("# libuv: not installed\n");
#endif
#ifndef HAVE_EV
    printf("# libev: not installed\n");
#endif
    return 0;
}
