/*
 * The limits that the host has chosen for an isolate, with defaults filled in; 0 for no limit.
 * They never change once the isolate is made.
 */
#ifndef ORR_LUA_ISOLATE_LIMITS_H
#define ORR_LUA_ISOLATE_LIMITS_H

#include "orrery.h"

struct log;

struct limits {
    enum orr_lua_profile profile;
    enum orr_lua_mode mode;
    uint64_t slice_ns;
    uint64_t deadline_ns[ORR_LUA_ENTRIES];
    uint64_t max_instructions;
    unsigned check_interval;
    unsigned strikes;
    unsigned max_tasks;
    size_t memory, memory_soft;
    size_t longest_string;
    size_t longest_source;
    unsigned longest_list, most_keys; /* the two parts of one table */
    unsigned most_strings;
    unsigned deepest_stack;
    unsigned max_objects;     /* objects of the library with a finalizer */
    unsigned max_sockets;     /* streams, listeners and datagram sockets that are open */
    uint64_t longest_step_ns; /* of one step of the collector */
    uint64_t slow_call_ns;    /* of a C function, until the host is told */
    bool safe_patterns;
    bool may_sleep;
    bool testing;
    unsigned schedule_limit, schedule_per_turn;
    unsigned events_limit;
    enum orr_events_policy events_policy;
    orr_lua_notice_fn *notice;
    void *notice_data;
    bool timeouts_as_failures;
};

/* Returns -EINVAL, and logs it, if an option is out of its range.  `options` may be NULL. */
int limits_choose(struct limits *limits, const struct orr_lua_options *options, const struct log *log);

#endif
