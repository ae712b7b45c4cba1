/*
 * Files of scripts, as a host sees them: what is open or under way ends with its script and with
 * its isolate, and counts on their account.  Memory runs out at every point.
 */
#include "failing.h"
#include "io/open_file.h"
#include "lua_host.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocations that are still served while it is not negative; threads of the pool count, too. */
static _Atomic int served = -1;

static bool may_allocate(void)
{
    int left = served;
    while (left > 0 && !atomic_compare_exchange_weak(&served, &left, left - 1))
        continue;
    return left;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size) : NULL;
}

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

/*
 * Waits until no thread does anything for scripts any more, and turns meanwhile.  A turn that
 * collects what a thread has opened may send it back to be closed: so several quiet looks in a row.
 */
static void expect_descriptors(struct orr_runtime *rt, int expected)
{
    enum { QUIET = 3 };
    for (int quiet = 0; quiet < QUIET; quiet++) {
        if (rt)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        sched_yield();
        struct blocking_numbers now = blocking_numbers(&file_pool);
        if (now.running + now.waiting)
            quiet = -1;
    }
    assert_int_equal(descriptors(), expected);
}

/* Turns until a task is done, and sleeps while it waits for the kernel. */
static void await_task(struct orr_runtime *rt, struct orr_task *task)
{
    struct pollfd bell = { .fd = orr_runtime_fd(rt), .events = POLLIN };
    for (bool done = false; !done;) {
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        if (!done)
            poll(&bell, 1, 1);
    }
}

/* Runs a script to its end, which must be a success. */
static void run(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    await_task(rt, task);
    expect_success(rt, task);
}

/* A script without memory cannot remove its temporary directories. */
static char folder[] = "/tmp/orrery-fs-scripts-XXXXXX";

__attribute__((constructor)) static void make_folder(void)
{
    if (mkdtemp(folder))
        setenv("TMPDIR", folder, 1);
}

__attribute__((destructor)) static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command))
        perror(folder);
}

/* Everything that a script can do with files. */
static const char tour[] = "local fs = game.fs\n"
                           "local dir = assert(fs.temp_dir())\n"
                           "local path = fs.join(dir, 'f')\n"
                           "assert(fs.write_file(path, 'one\\n', { atomic = true, sync = false }))\n"
                           "assert(fs.append_file(path, { 'two', '\\n' }))\n"
                           "assert(fs.read_file(path) == 'one\\ntwo\\n')\n"
                           "local file <close> = assert(fs.open(path, 'r+'))\n"
                           "assert(file:read_line() == 'one' and file:seek() == 4)\n"
                           "assert(file:write('TWO') and file:pwrite('x', 0) and file:pread(3, 4) == 'TWO')\n"
                           "assert(file:lock() and file:unlock() and file:truncate(5) and file:size() == 5)\n"
                           "assert(fs.make_dir(fs.join(dir, 'a/b'), { parents = true }))\n"
                           "assert(fs.copy(path, fs.join(dir, 'a/g')))\n"
                           "assert(fs.symlink('f', fs.join(dir, 's')) and fs.read_link(fs.join(dir, 's')))\n"
                           "assert(fs.link(path, fs.join(dir, 'h')) and fs.rename(path, fs.join(dir, 'k')))\n"
                           "assert(#fs.list(dir) == 4)\n"
                           "for path, stat in fs.walk(dir) do assert(stat.type) end\n"
                           "assert(fs.temp_file()):close()\n"
                           "assert(fs.remove(fs.join(dir, 'a'), { recursive = true }))\n"
                           "note 'done'\n";

/* Tasks in the middle of everything. */
static const char every_wait[] = "local async, fs = game.async, game.fs\n"
                                 "kept = {}\n"
                                 "for i = 1, 30 do\n"
                                 "  async.run({ detached = true }, function()\n"
                                 "    local file = assert(fs.temp_file())\n"
                                 "    kept[i] = file\n"
                                 "    while true do\n"
                                 "      file:seek('set') file:read() file:write('y') file:sync()\n"
                                 "      fs.read_file('/proc/self/stat') fs.list('/proc/self') fs.stat('/tmp')\n"
                                 "      file:lock()\n"
                                 "    end\n"
                                 "  end)\n"
                                 "end\n"
                                 "async.sleep(1e9)\n";

/* Opens what a process keeps open once it is used. */
static void warm_up(const char *script)
{
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L, script);
    finish_counting(rt, L);
    noted[0] = '\0';
}

/* Turns until the task is done, or nothing has happened for a moment. */
static void turn_until_stuck(struct orr_runtime *rt, struct orr_task *task)
{
    struct pollfd ready = { .fd = orr_runtime_fd(rt), .events = POLLIN };
    while (!orr_task_done(task)) {
        int more = orr_runtime_turn(rt, ORR_NEVER);
        if (more < 0 || (!more && !poll(&ready, 1, 20)))
            return;
    }
}

/*
 * Runs a script again and again, until memory lasts.  Each time, memory runs out a little later,
 * and comes back when the script is done or stuck.
 */
static void run_without_memory(const char *script)
{
    enum { STEP = 7 * 50 / WORK(50) }; /* after the first points, which are all tried */
    warm_up(script);
    expect_descriptors(NULL, descriptors());
    int before = descriptors();
    bool whole = false;
    for (int allowed = 0; !whole; allowed += allowed < 40 ? 1 : STEP) {
        allocated_bytes = 0;
        struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = failing_alloc });
        assert_non_null(rt);
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
        load(L, script);
        struct orr_task *task = NULL;
        served = allowed;
        int error = orr_lua_start(L, 0, "script", &task);
        if (!error)
            turn_until_stuck(rt, task);
        whole = served > 0 && !error && orr_task_done(task);
        served = -1;
        if (!error)
            await_task(rt, task);
        if (task)
            orr_task_unref(task);
        finish_counting(rt, L);
        expect_descriptors(NULL, before);
    }
    assert_non_null(strstr(noted, "done"));
}

static void without_memory_at_any_point_nothing_is_left_open(void **state)
{
    (void)state;
    run_without_memory(tour);
}

static int settled_descriptors(void)
{
    warm_up(tour);
    while (blocking_numbers(&file_pool).running)
        sched_yield();
    return descriptors();
}

/* Starts every_wait and makes so many turns. */
static lua_State *begin(struct orr_runtime *rt, int turns)
{
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, every_wait);
    for (int i = 0; i < turns; i++) {
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        sched_yield();
    }
    orr_task_unref(task);
    return L;
}

static void closing_an_isolate_at_any_moment_closes_everything(void **state)
{
    (void)state;
    int before = settled_descriptors();
    for (int turns = 0; turns < 60; turns += 3) {
        struct orr_runtime *rt = host_counting_runtime();
        int open = descriptors();
        assert_int_equal(orr_lua_close(begin(rt, turns)), 0);
        expect_descriptors(rt, open);
        finish_counting(rt, NULL);
        expect_descriptors(NULL, before);
    }
}

static void a_runtime_may_end_in_the_middle_of_everything(void **state)
{
    (void)state;
    int before = settled_descriptors();
    for (int turns = 0; turns < 60; turns += 6) {
        struct orr_runtime *rt = host_counting_runtime();
        finish_counting(rt, begin(rt, turns));
        expect_descriptors(NULL, before);
    }
}

static void an_untrusted_isolate_has_no_files(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    static const char *const modules[] = { "async", "fs", NULL };
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game", .modules = modules }, &L), -EINVAL);
    assert_non_null(strstr(harness_log(), "\"fs\""));
    assert_non_null(strstr(harness_log(), "only trusted isolates can have"));
    L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "note(game.fs == nil) note(pcall(require, 'orrery.fs'))");
    await_task(rt, task);
    expect_success(rt, task);
    assert_non_null(strstr(noted, "true;false;"));
    finish_counting(rt, L);
}

static const struct CMUnitTest fs_scripts[] = {
    cmocka_unit_test(without_memory_at_any_point_nothing_is_left_open),
    cmocka_unit_test(closing_an_isolate_at_any_moment_closes_everything),
    cmocka_unit_test(a_runtime_may_end_in_the_middle_of_everything),
    cmocka_unit_test(an_untrusted_isolate_has_no_files),
};

HARNESS_MAIN(fs_scripts)
