/* Files in C: operations by name, streams of files, cancellation, the life of what is given up. */
#include "wait_fixture.h"

#include "io/open_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[64];
static size_t charged;
static size_t charge_most;

static int charge(void *data, size_t bytes)
{
    (void)data;
    if (charged + bytes > charge_most)
        return -EDQUOT;
    charged += bytes;
    return 0;
}

static void uncharge(void *data, size_t bytes)
{
    (void)data;
    assert_true(bytes <= charged);
    charged -= bytes;
}

static const struct orr_account account = { .charge = charge, .uncharge = uncharge };
static const struct orr_open on_account = { .account = &account, .label = "the test" };

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Waits until no thread does anything for us any more. */
static void await_quiet(void)
{
    for (struct blocking_numbers now = blocking_numbers(&file_pool); now.running + now.waiting;
         now = blocking_numbers(&file_pool))
        sched_yield();
}

static void await_end(const struct step_task *task)
{
    while (!orr_task_done(task->task))
        settle();
}

static const char *in_folder(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void make_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_content(const char *name, const char *expected)
{
    char text[256] = "";
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
}

static int before;

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/orrery-file-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    charged = 0;
    charge_most = SIZE_MAX;
    open_fixture();
    before = descriptors();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    await_quiet();
    settle();
    assert_int_equal(charged, 0);
    assert_int_equal(descriptors(), before);
    fixture_close(rt);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* --- Operations ------------------------------------------------------------------------------- */

static int await_work(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_file_await(task, &self->wait, self->data)));
}

/* Does a request and answers its result; the work is kept for the caller, who may not want it. */
static int64_t do_it(const struct orr_file_request *request, struct orr_file_work **kept)
{
    struct orr_file_work *work;
    int error = orr_file_start(request, &on_account, &work);
    if (error)
        return error;
    struct step_task waits = { .name = "a", .body = await_work, .data = work };
    start_tasks(&waits, 1);
    await_end(&waits);
    int64_t result = orr_file_answer(work)->result;
    if (kept)
        *kept = work;
    else
        orr_file_work_free(work);
    STEP_TASKS_UNREF(&waits);
    return result;
}

static int64_t by_name(enum orr_file_call call, const char *name, int flags, unsigned mode)
{
    return do_it(&(struct orr_file_request){ .call = call, .path.text = in_folder(name), .flags = flags, .mode = mode },
                 NULL);
}

static struct orr_stream *open_file(const char *name, int flags)
{
    struct orr_file_work *work;
    struct orr_file_request request = {
        .call = ORR_FILE_OPEN, .path.text = in_folder(name), .flags = flags, .mode = 0600
    };
    assert_int_equal(do_it(&request, &work), 0);
    struct orr_stream *stream;
    assert_int_equal(orr_file_take(work, &on_account, &stream), 0);
    assert_int_equal(orr_file_take(work, &on_account, &stream), -EALREADY);
    orr_file_work_free(work);
    return stream;
}

static void operations_by_name_do_what_the_system_does(void **state)
{
    (void)state;
    assert_int_equal(by_name(ORR_FILE_MAKE_DIR, "d", 0, 0700), 0);
    assert_int_equal(by_name(ORR_FILE_MAKE_DIR, "d", 0, 0700), -EEXIST);
    make_file("f", "text");
    struct orr_file_work *work;
    struct orr_file_request stat_it = { .call = ORR_FILE_STAT, .path.text = in_folder("f") };
    assert_int_equal(do_it(&stat_it, &work), 0);
    assert_int_equal(orr_file_answer(work)->stat.type, ORR_TYPE_REGULAR);
    assert_int_equal(orr_file_answer(work)->stat.size, 4);
    orr_file_work_free(work);
    struct orr_file_request link = { .call = ORR_FILE_SYMLINK, .bytes = "f", .size = 1, .to.text = in_folder("s") };
    assert_int_equal(do_it(&link, NULL), 0);
    struct orr_file_request read_link = { .call = ORR_FILE_READ_LINK, .path.text = in_folder("s") };
    assert_int_equal(do_it(&read_link, &work), 1);
    assert_memory_equal(orr_file_answer(work)->bytes, "f", 1);
    orr_file_work_free(work);
    struct orr_file_request hard = { .call = ORR_FILE_LINK, .path.text = in_folder("f"), .to.text = in_folder("h") };
    assert_int_equal(do_it(&hard, NULL), 0);
    struct orr_file_request rename = {
        .call = ORR_FILE_RENAME, .path.text = in_folder("f"), .to.text = in_folder("h2"), .flags = RENAME_NOREPLACE
    };
    assert_int_equal(do_it(&rename, NULL), 0);
    rename.path.text = in_folder("h");
    assert_int_equal(do_it(&rename, NULL), -EEXIST);
    assert_int_equal(by_name(ORR_FILE_REMOVE, "d", AT_REMOVEDIR, 0), 0);
    assert_int_equal(by_name(ORR_FILE_REMOVE, "d", 0, 0), -ENOENT);
    expect_content("h", "text");
}

static void requests_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct orr_file_work *work;
    char path[PATH_MAX + 1];
    memset(path, 'a', sizeof path - 1);
    path[PATH_MAX] = '\0';
    struct orr_file_request request = { .call = ORR_FILE_STAT };
    assert_int_equal(orr_file_start(NULL, NULL, &work), -EINVAL);
    assert_int_equal(orr_file_start(&request, NULL, NULL), -EINVAL);
    assert_int_equal(orr_file_start(&request, NULL, &work), -EINVAL);
    request.path.text = path;
    assert_int_equal(orr_file_start(&request, NULL, &work), -ENAMETOOLONG);
    path[PATH_MAX - 1] = '\0';
    assert_int_equal(do_it(&request, NULL), -ENAMETOOLONG);
    assert_int_equal(orr_file_start(&(struct orr_file_request){ .call = ORR_FILE_READ }, NULL, &work), -EINVAL);
    assert_int_equal(orr_file_start(&(struct orr_file_request){ .call = (enum orr_file_call)99 }, NULL, &work),
                     -EINVAL);
    assert_int_equal(orr_file_seek(NULL, 0), -EINVAL);
}

static void a_directory_is_listed_in_pieces(void **state)
{
    (void)state;
    enum { FILES = 500 };
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d", i);
        make_file(name, "");
    }
    struct orr_stream *directory = open_file(".", O_RDONLY | O_DIRECTORY);
    int found = 0, pieces = 0;
    for (;; pieces++) {
        struct orr_file_work *work;
        struct orr_file_request list = { .call = ORR_FILE_LIST, .file = directory, .size = 2048 };
        if (do_it(&list, &work) == 0) {
            orr_file_work_free(work);
            break;
        }
        size_t cursor = 0;
        const char *name;
        enum orr_file_type type;
        while (orr_file_next_name(work, &cursor, &name, &type)) {
            assert_int_equal(type, ORR_TYPE_REGULAR);
            assert_memory_equal(name, "file-", 5);
            found++;
        }
        orr_file_work_free(work);
    }
    assert_int_equal(found, FILES);
    assert_true(pieces > 4);
    orr_stream_free(directory);
}

static int64_t beneath(enum orr_file_call call, int directory, const char *path)
{
    struct orr_file_request request = { .call = call,
                                        .path = { .text = path, .directory = directory, .beneath = true },
                                        .mode = 0700 };
    return do_it(&request, NULL);
}

static void a_path_beneath_a_directory_does_not_leave_it(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    assert_int_equal(mkdir(in_folder("in/side"), 0700), 0);
    make_file("in/file", "in");
    make_file("out", "out");
    assert_int_equal(symlink("../out", in_folder("in/link")), 0);
    assert_int_equal(symlink("..", in_folder("in/up")), 0);
    assert_int_equal(symlink("/tmp", in_folder("in/root")), 0);
    assert_int_equal(symlink("file", in_folder("in/fine")), 0);
    int directory = open(in_folder("in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(beneath(ORR_FILE_STAT, directory, "file"), 0);
    assert_int_equal(beneath(ORR_FILE_STAT, directory, "fine"), 0);
    assert_int_equal(beneath(ORR_FILE_STAT, directory, "side/../file"), 0);
    static const char *const escapes[] = { "../out", "link", "up/out", "root", "/tmp", "up", "..", "side/../.." };
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        assert_int_equal(beneath(ORR_FILE_STAT, directory, escapes[i]), -EXDEV);
        assert_int_equal(beneath(ORR_FILE_OPEN, directory, escapes[i]), -EXDEV);
    }
    assert_int_equal(beneath(ORR_FILE_MAKE_DIR, directory, "new/"), 0);
    assert_int_equal(beneath(ORR_FILE_MAKE_DIR, directory, "up/new"), -EXDEV);
    assert_int_equal(beneath(ORR_FILE_REMOVE, directory, "up/out"), -EXDEV);
    assert_int_equal(beneath(ORR_FILE_REMOVE, directory, "../out"), -EXDEV);
    assert_int_equal(beneath(ORR_FILE_REMOVE, directory, "link"), 0); /* the link itself */
    expect_content("out", "out");
    close(directory);
}

/* --- Streams ---------------------------------------------------------------------------------- */

struct transfer {
    struct orr_stream *stream;
    char bytes[512];
    size_t size, moved;
    int error;
};

static int read_some(struct orr_task *task, struct step_task *self)
{
    struct transfer *transfer = self->data;
    transfer->error = AWAIT(
        orr_stream_read(task, &self->wait, transfer->stream, transfer->bytes, transfer->size, &transfer->moved));
    return note_result(self, transfer->error);
}

static int write_all(struct orr_task *task, struct step_task *self)
{
    struct transfer *transfer = self->data;
    size_t half = transfer->size / 2;
    struct iovec parts[] = { { transfer->bytes, half }, { transfer->bytes + half, transfer->size - half } };
    transfer->error = AWAIT(orr_stream_write(task, &self->wait, transfer->stream, parts, 2, &transfer->moved));
    return note_result(self, transfer->error);
}

static void do_transfer(step_fn *body, struct transfer *transfer)
{
    struct step_task task = { .name = "a", .body = body, .data = transfer };
    start_tasks(&task, 1);
    await_end(&task);
    STEP_TASKS_UNREF(&task);
}

static void a_file_is_written_and_read_at_its_position(void **state)
{
    (void)state;
    struct transfer transfer = { .stream = open_file("f", O_RDWR | O_CREAT), .bytes = "hello world", .size = 11 };
    uint64_t position;
    assert_string_equal(orr_file_path(transfer.stream), in_folder("f"));
    do_transfer(write_all, &transfer);
    assert_int_equal(transfer.moved, 11);
    expect_content("f", "hello world");
    assert_int_equal(orr_file_seek(transfer.stream, 6), 0);
    transfer.size = 3;
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 3);
    assert_memory_equal(transfer.bytes, "wor", 3);
    assert_int_equal(orr_file_tell(transfer.stream, &position), 0);
    assert_int_equal(position, 9);
    memcpy(transfer.bytes, "XY!", 3); /* what was read ahead does not hide it */
    do_transfer(write_all, &transfer);
    expect_content("f", "hello worXY!");
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 0);
    assert_int_equal(orr_file_seek(transfer.stream, 11), 0);
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 1);
    orr_stream_free(transfer.stream);
}

static void a_write_that_fails_says_so(void **state)
{
    (void)state;
    struct transfer transfer = { .stream = open_file("f", O_RDWR | O_CREAT), .bytes = "hello", .size = 5 };
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    struct rlimit small = { .rlim_cur = 3, .rlim_max = limit.rlim_max };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    notes_clear();
    do_transfer(write_all, &transfer);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);
    assert_string_equal(notes(), "a:EFBIG");
    assert_int_equal(transfer.moved, 3);
    orr_stream_free(transfer.stream);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    enum { DISK = 64 * 1024, TOO_MUCH = 2 * DISK };
    assert_int_equal(mkdir(in_folder("small"), 0700), 0);
    if (mount("none", in_folder("small"), "tmpfs", 0, "size=65536") < 0) {
        printf("left out: a full disk: no tmpfs can be mounted\n");
        return;
    }
    char *bytes = calloc(1, TOO_MUCH);
    struct orr_stream *file = open_file("small/f", O_RDWR | O_CREAT);
    struct orr_file_work *work;
    struct orr_file_request request = { .call = ORR_FILE_WRITE, .file = file, .bytes = bytes, .size = TOO_MUCH };
    assert_int_equal(do_it(&request, &work), -ENOSPC);
    assert_int_equal(orr_file_answer(work)->moved, DISK);
    orr_file_work_free(work);
    struct transfer transfer = { .stream = file, .size = 5 };
    assert_int_equal(orr_file_seek(file, DISK), 0);
    do_transfer(write_all, &transfer);
    assert_int_equal(transfer.error, -ENOSPC);
    assert_int_equal(transfer.moved, 0);
    orr_stream_free(file);
    free(bytes);
    await_quiet();
    assert_int_equal(umount(in_folder("small")), 0);
}

static void a_file_that_shrinks_ends_early(void **state)
{
    (void)state;
    make_file("f", "0123456789");
    struct transfer transfer = { .stream = open_file("f", O_RDONLY), .size = 4 };
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 4);
    assert_int_equal(truncate(in_folder("f"), 2), 0);
    assert_int_equal(orr_file_seek(transfer.stream, 4), 0);
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 0);
    orr_stream_free(transfer.stream);
}

static void read_fifo(void)
{
    struct transfer transfer = { .stream = open_file("p", O_RDONLY), .size = 8 };
    struct step_task task = { .name = "a", .body = read_some, .data = &transfer };
    start_tasks(&task, 1);
    assert_false(orr_task_done(task.task));
    assert_int_equal(blocking_numbers(&file_pool).running, 0);
    struct orr_stream *writer = open_file("p", O_WRONLY);
    assert_false(orr_task_done(task.task));
    struct transfer out = { .stream = writer, .bytes = "hi", .size = 2 };
    do_transfer(write_all, &out);
    await_end(&task);
    assert_int_equal(transfer.moved, 2);
    orr_stream_free(writer);
    do_transfer(read_some, &transfer);
    assert_int_equal(transfer.moved, 0);
    orr_stream_free(transfer.stream);
    STEP_TASKS_UNREF(&task);
}

static void a_fifo_is_awaited_without_a_thread(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_folder("p"), 0600), 0);
    read_fifo();
    before = descriptors(); /* the reactor keeps a set of what it watches, from the first on */
    read_fifo();
}

static void a_lock_that_is_taken_holds_no_thread(void **state)
{
    (void)state;
    struct orr_stream *one = open_file("f", O_RDWR | O_CREAT), *two = open_file("f", O_RDWR);
    struct orr_file_request lock = { .call = ORR_FILE_LOCK, .file = one, .flags = LOCK_EX };
    assert_int_equal(do_it(&lock, NULL), 0);
    lock.file = two;
    assert_int_equal(do_it(&lock, NULL), -EAGAIN);
    orr_stream_free(one);
    await_quiet();
    assert_int_equal(do_it(&lock, NULL), 0);
    orr_stream_free(two);
}

/* --- Cancellation and ends -------------------------------------------------------------------- */

/* Each moment at which a read may be cancelled: after so many turns. */
static void a_cancelled_read_has_consumed_nothing(void **state)
{
    (void)state;
    make_file("f", "0123456789");
    for (int turns = 0; turns < 20; turns++) {
        struct transfer transfer = { .stream = open_file("f", O_RDONLY), .size = 4 };
        struct step_task task = { .name = "a", .body = read_some, .data = &transfer };
        step_task_start(rt, &task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        for (int i = 0; i < turns; i++)
            orr_runtime_turn(rt, ORR_NEVER);
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_task_cancel(task.task, "test");
        await_end(&task);
        if (transfer.error == -ECANCELED)
            assert_int_equal(transfer.moved, 0);
        size_t had = transfer.moved;
        do_transfer(read_some, &transfer);
        assert_int_equal(transfer.bytes[0], (int)('0' + had));
        orr_stream_free(transfer.stream);
        STEP_TASKS_UNREF(&task);
        await_quiet();
    }
}

/* A write has its bytes, or none of them: it is small. */
static void a_cancelled_write_says_how_much_has_gone_out(void **state)
{
    (void)state;
    for (int turns = 0; turns < 20; turns++) {
        struct transfer transfer = { .stream = open_file("f", O_RDWR | O_CREAT | O_TRUNC),
                                     .bytes = "hello",
                                     .size = 5 };
        struct step_task task = { .name = "a", .body = write_all, .data = &transfer };
        step_task_start(rt, &task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        for (int i = 0; i < turns; i++)
            orr_runtime_turn(rt, ORR_NEVER);
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_task_cancel(task.task, "test");
        await_end(&task);
        size_t written = orr_stream_written(transfer.stream);
        assert_true(written == 0 || (written == 5 && transfer.error));
        orr_stream_free(transfer.stream);
        await_quiet();
        settle();
        expect_content("f", written || !transfer.error ? "hello" : "");
        STEP_TASKS_UNREF(&task);
    }
}

/* An operation that nobody wants any more closes what it opens. */
static void an_operation_is_given_up_at_any_moment(void **state)
{
    (void)state;
    make_file("f", "text");
    for (int turns = 0; turns < 40; turns++) {
        struct orr_file_work *work;
        struct orr_file_request request = { .call = ORR_FILE_OPEN, .path.text = in_folder("f") };
        assert_int_equal(orr_file_start(&request, &on_account, &work), 0);
        assert_int_equal(orr_runtime_leave(rt), 0);
        for (int i = 0; i < turns / 2; i++)
            orr_runtime_turn(rt, ORR_NEVER);
        if (turns % 2)
            await_quiet();
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_file_work_free(work);
        await_quiet();
        settle();
        assert_int_equal(descriptors(), before);
        assert_int_equal(charged, 0);
    }
}

static void what_is_left_ends_with_the_runtime(void **state)
{
    (void)state;
    struct orr_file_work *work;
    open_file("f", O_RDWR | O_CREAT);
    for (int i = 0; i < 30; i++) {
        struct orr_file_request request = { .call = ORR_FILE_OPEN, .path.text = in_folder("f") };
        assert_int_equal(orr_file_start(&request, &on_account, &work), 0);
    }
    fixture_close(rt);
    await_quiet();
    open_fixture();
}

static void an_account_that_refuses_leaves_nothing(void **state)
{
    (void)state;
    make_file("f", "text");
    struct orr_file_request request = { .call = ORR_FILE_OPEN, .path.text = in_folder("f") };
    int refused = 0;
    for (size_t most = 0;; most += 64) {
        charge_most = most;
        struct orr_file_work *work;
        int64_t error = do_it(&request, &work);
        struct orr_stream *stream = NULL;
        if (!error) {
            error = orr_file_take(work, &on_account, &stream);
            orr_file_work_free(work);
        }
        orr_stream_free(stream);
        await_quiet();
        assert_int_equal(charged, 0);
        if (!error)
            break;
        assert_int_equal(error, -EDQUOT);
        refused++;
    }
    assert_true(refused > 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest file[] = {
    TEST(operations_by_name_do_what_the_system_does),
    TEST(requests_that_make_no_sense_are_refused),
    TEST(a_directory_is_listed_in_pieces),
    TEST(a_path_beneath_a_directory_does_not_leave_it),
    TEST(a_file_is_written_and_read_at_its_position),
    TEST(a_write_that_fails_says_so),
    TEST(a_full_disk_is_an_error),
    TEST(a_file_that_shrinks_ends_early),
    TEST(a_fifo_is_awaited_without_a_thread),
    TEST(a_lock_that_is_taken_holds_no_thread),
    TEST(a_cancelled_read_has_consumed_nothing),
    TEST(a_cancelled_write_says_how_much_has_gone_out),
    TEST(an_operation_is_given_up_at_any_moment),
    TEST(what_is_left_ends_with_the_runtime),
    TEST(an_account_that_refuses_leaves_nothing),
};

HARNESS_MAIN(file)
