#include "guest.h"

#include <lauxlib.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, int error)
{
    fprintf(stderr, "host: %s: %s\n", what, strerror(-error));
    return error;
}

/* --- What the library tells the host -------------------------------------------------------------------------- */

static void log_line(void *data, enum orr_log level, const char *message)
{
    static const char *const names[] = { "error", "warning", "info" };
    (void)data;
    if (level != ORR_LOG_INFO)
        fprintf(stderr, "host: %s: %s\n", names[level], message);
}

/* At once, when something of a script's is ended or disabled: for a message on the screen, say. */
static void notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    struct guest *guest = data;
    (void)L;
    guest->timeouts += notice == ORR_LUA_TIMED_OUT;
    guest->disabled += notice == ORR_LUA_DISABLED;
    if (!guest->quiet)
        printf("notice: %.*s\n", (int)strcspn(text, "\n"),
               text); /* the lines after the first say where, and the stack */
}

/* The failure of a task that nobody awaits.  A time-out is one too, and has been a notice already. */
static void sink(void *data, struct orr_task *task)
{
    struct guest *guest = data;
    const struct orr_result *result = orr_task_result(task);
    guest->failures++;
    if (guest->quiet || (result && result->error == -ETIME))
        return;
    if (!guest->L || orr_lua_push_report(guest->L, task)) {
        printf("failure: %s\n", result && result->message ? result->message : "unknown");
        return;
    }
    const char *report = lua_tostring(guest->L, -1);
    printf("failure: %.*s\n", (int)strcspn(report, "\n"), report);
    lua_pop(guest->L, 1);
}

/* --- From the beginning to the end ---------------------------------------------------------------------------- */

int guest_open(struct guest *guest)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is to be seen when it is printed */
    /* Unloading a script waits for its clean-up, and the host with it: so the grace period is short. */
    guest->rt = orr_runtime_new(
        &(struct orr_options){ .log = log_line, .sink = sink, .sink_data = guest, .grace_ms = 50 });
    return guest->rt ? 0 : failed("cannot make a runtime", -errno);
}

int guest_load(struct guest *guest, const char *mount, const char *path, void (*prepare)(void *data, lua_State *L),
               void *data)
{
    struct orr_script_options options = {
        .source = { .path = path },
        .prepare = prepare,
        .prepare_data = data,
        /* Shorter deadlines than the default of a second: whoever pressed a key does not wait so long. */
        .lua = { .mount = mount,
                 .deadline_ns = { [ORR_LUA_TASK] = 200 * MS, [ORR_LUA_HANDLER] = 200 * MS, [ORR_LUA_TIMER] = 200 * MS },
                 .strikes = guest->forgive ? UINT32_MAX : 0,
                 .events_policy = ORR_EVENTS_DROP_OLDEST, /* old keys are worth less than new ones */
                 .notice = notice,
                 .notice_data = guest },
    };
    int error = orr_script_load(guest->rt, &options, &guest->script);
    if (error)
        return failed(path, error);
    guest->L = orr_script_state(guest->script);
    /* Its first turn, in which it registers its handlers.  An event emitted before would find none, and be lost. */
    int more = orr_runtime_turn(guest->rt, TURN_NS);
    return more < 0 ? failed(path, more) : 0;
}

void guest_unload(struct guest *guest)
{
    int error = guest->script ? orr_script_unload(guest->script) : 0;
    if (error)
        failed("cannot unload the script", error);
    guest->script = NULL;
    guest->L = NULL;
}

int guest_close(struct guest *guest)
{
    guest_unload(guest);
    int error = orr_runtime_free(guest->rt);
    guest->rt = NULL;
    return error ? failed("cannot free the runtime", error) : 0;
}

/* --- Events --------------------------------------------------------------------------------------------------- */

struct emission {
    const char *event;
    const struct guest_field *fields;
    unsigned count;
    int error;
};

static int emit_protected(lua_State *L)
{
    struct emission *emission = lua_touserdata(L, 1);
    lua_createtable(L, 0, (int)emission->count);
    for (const struct guest_field *field = emission->fields; field < emission->fields + emission->count; field++) {
        if (field->text)
            lua_pushstring(L, field->text);
        else
            lua_pushinteger(L, field->number);
        lua_setfield(L, -2, field->key);
    }
    emission->error = orr_events_emit(L, emission->event);
    return 0;
}

/*
 * Making a table can fail where the script has used up its memory, and an error of Lua's outside any protected call ends the
 * process.  So the host makes what it emits in a C function, called by lua_pcall().  No Lua of the script's runs in it.
 */
void guest_emit(struct guest *guest, const char *event, const struct guest_field *fields, unsigned count)
{
    struct emission emission = { .event = event, .fields = fields, .count = count };
    if (!guest->L)
        return;
    lua_pushcfunction(guest->L, emit_protected);
    lua_pushlightuserdata(guest->L, &emission);
    if (lua_pcall(guest->L, 1, 0, 0) != LUA_OK) {
        lua_pop(guest->L, 1);
        emission.error = -ENOMEM;
    }
    guest->refused += emission.error != 0;
}

void guest_tick(struct guest *guest)
{
    guest->ticks++;
    guest->busy_ticks += orr_runtime_next_deadline(guest->rt) == 0; /* there is something to do at this moment */
    guest_emit(guest, "tick", &(struct guest_field){ .key = "number", .number = guest->ticks }, 1);
}

void guest_summary(const struct guest *guest)
{
    printf("host: ticks %u, while a script was busy %u, time-outs %u, disabled %u, failures %u, refused events %u\n",
           guest->ticks, guest->busy_ticks, guest->timeouts, guest->disabled, guest->failures, guest->refused);
}
