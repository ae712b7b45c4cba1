/* Checks the limits that a host chooses for an isolate, and fills in the defaults. */
#include "lua/isolate/limits.h"

#include "base/log.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/grants.h"

#include <errno.h>
#include <limits.h>

enum {
    STRIKES_DEFAULT = 3,
    CHECK_INTERVAL_DEFAULT = 10000,
    EVENTS_DEFAULT = 1024,
    SCHEDULE_DEFAULT = 1000,
    SCHEDULE_TURN_DEFAULT = 16,
    TASKS_UNTRUSTED = 10000,
    SOURCE_UNTRUSTED = 128 << 10,
    LIST_UNTRUSTED = 1 << 18,
    KEYS_UNTRUSTED = 1 << 15,
    STRINGS_UNTRUSTED = 1 << 16,
    STACK_UNTRUSTED = 1 << 17,
    OBJECTS_UNTRUSTED = 50000,
    SOCKETS_UNTRUSTED = 64,
};

#define MS UINT64_C(1000000)
#define SLICE_DEFAULT (2 * MS)
#define SLICE_MIN (MS / 10)
#define INSTRUCTIONS_DEFAULT 1000000
#define STEP_UNTRUSTED (8 * MS)
#define MB ((size_t)1 << 20)

static int check(const struct orr_lua_options *options, const struct log *log)
{
    if (options->profile > ORR_LUA_TRUSTED) {
        log_line(log, ORR_LOG_ERROR, "option profile is %d, expected ORR_LUA_UNTRUSTED or _TRUSTED",
                 (int)options->profile);
        return -EINVAL;
    }
    if (options->mode > ORR_LUA_OFF) {
        log_line(log, ORR_LOG_ERROR, "option mode is %d, expected ORR_LUA_SIGNAL, _COUNT or _OFF", (int)options->mode);
        return -EINVAL;
    }
    if (options->slice_ns && options->slice_ns < SLICE_MIN) {
        log_line(log, ORR_LOG_ERROR, "option slice_ns is %llu, expected at least %llu",
                 (unsigned long long)options->slice_ns, (unsigned long long)SLICE_MIN);
        return -EINVAL;
    }
    if (options->events_policy > ORR_EVENTS_COALESCE) {
        log_line(log, ORR_LOG_ERROR,
                 "option events_policy is %d, expected ORR_EVENTS_REFUSE, _DROP_OLDEST or _COALESCE",
                 (int)options->events_policy);
        return -EINVAL;
    }
    if (options->check_interval > INT_MAX) {
        log_line(log, ORR_LOG_ERROR, "option check_interval is %u, expected at most %d", options->check_interval,
                 INT_MAX);
        return -EINVAL;
    }
    bool trusted = options->profile == ORR_LUA_TRUSTED;
    unsigned allowed = trusted ? API_MODULES_ALL : api_modules_for_untrusted(grants_have_network(options->grants));
    int error = api_modules_check(options->modules, allowed, log);
    return error ? error : api_modules_check(options->worker_modules, allowed, log);
}

/*
 * The limit for an option, in which 0 means the default and `never` means no limit.  In the result
 * 0 means no limit.
 */
static uint64_t choose(uint64_t option, uint64_t usual, uint64_t never)
{
    if (!option)
        return usual;
    return option == never ? 0 : option;
}

static uint64_t usual_deadline(enum orr_lua_entry entry, bool trusted)
{
    switch (entry) {
    case ORR_LUA_TASK:
        return trusted ? 0 : 1000 * MS;
    case ORR_LUA_SCRIPT:
        return 5000 * MS;
    case ORR_LUA_JOB:
        return trusted ? 0 : 300000 * MS; /* besides the job's own timeout */
    default:
        return 1000 * MS;
    }
}

int limits_choose(struct limits *limits, const struct orr_lua_options *options, const struct log *log)
{
    static const struct orr_lua_options none;
    options = options ? options : &none;
    int error = check(options, log);
    if (error)
        return error;
    bool trusted = options->profile == ORR_LUA_TRUSTED;
    *limits = (struct limits){
        .profile = options->profile,
        .mode = options->mode,
        .slice_ns = options->slice_ns ? options->slice_ns : SLICE_DEFAULT,
        .max_instructions = choose(options->max_instructions, INSTRUCTIONS_DEFAULT, ORR_NEVER),
        .check_interval = options->check_interval ? options->check_interval : CHECK_INTERVAL_DEFAULT,
        .strikes = (unsigned)choose(options->strikes, STRIKES_DEFAULT, UINT_MAX),
        .max_tasks = options->max_tasks ? options->max_tasks
                     : trusted          ? UINT_MAX
                                        : TASKS_UNTRUSTED,
        .memory = choose(options->memory_limit, trusted ? 0 : 64 * MB, SIZE_MAX),
        .memory_soft = choose(options->memory_soft, 0, SIZE_MAX),
        .longest_source = choose(options->longest_source, trusted ? 0 : SOURCE_UNTRUSTED, SIZE_MAX),
        .longest_string = choose(options->longest_string, trusted ? 0 : 8 * MB, SIZE_MAX),
        .longest_list = (unsigned)choose(options->longest_list, trusted ? 0 : LIST_UNTRUSTED, UINT_MAX),
        .most_keys = (unsigned)choose(options->most_keys, trusted ? 0 : KEYS_UNTRUSTED, UINT_MAX),
        .most_strings = (unsigned)choose(options->most_strings, trusted ? 0 : STRINGS_UNTRUSTED, UINT_MAX),
        .deepest_stack = (unsigned)choose(options->deepest_stack, trusted ? 0 : STACK_UNTRUSTED, UINT_MAX),
        .max_objects = (unsigned)choose(options->max_objects, trusted ? 0 : OBJECTS_UNTRUSTED, UINT_MAX),
        .max_sockets = (unsigned)choose(options->max_sockets, trusted ? 0 : SOCKETS_UNTRUSTED, UINT_MAX),
        .longest_step_ns = choose(options->longest_step_ns, trusted ? 0 : STEP_UNTRUSTED, ORR_NEVER),
        .safe_patterns = options->safe_patterns || !trusted,
        .may_sleep = options->may_sleep,
        .slow_call_ns = options->slow_call_ns == ORR_NEVER ? 0 : options->slow_call_ns,
        .testing = options->testing,
        .schedule_limit = options->schedule_limit ? options->schedule_limit : SCHEDULE_DEFAULT,
        .schedule_per_turn = options->schedule_per_turn ? options->schedule_per_turn : SCHEDULE_TURN_DEFAULT,
        .events_limit = options->events_limit ? options->events_limit : EVENTS_DEFAULT,
        .events_policy = options->events_policy,
        .notice = options->notice,
        .notice_data = options->notice_data,
        .timeouts_as_failures = options->timeouts_as_failures,
    };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        limits->deadline_ns[entry] = choose(options->deadline_ns[entry],
                                            usual_deadline((enum orr_lua_entry)entry, trusted), ORR_NEVER);
    return 0;
}
