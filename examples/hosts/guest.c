#include "guest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, int error)
{
    fprintf(stderr, "host: %s: %s\n", what, strerror(-error));
    return error;
}

/* --- Called by the library -------------------------------------------------------------------- */

static void log_line(void *data, enum orr_log level, const char *message)
{
    static const char *const names[] = { "error", "warning", "info" };
    (void)data;
    if (level != ORR_LOG_INFO)
        fprintf(stderr, "host: %s: %s\n", names[level], message);
}

/* Called at once when something of a script is ended or disabled: a host could show a message. */
static void notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    struct guest *guest = data;
    (void)L;
    guest->timeouts += notice == ORR_LUA_TIMED_OUT;
    guest->disabled += notice == ORR_LUA_DISABLED;
    if (!guest->quiet)
        printf("notice: %.*s\n", (int)strcspn(text, "\n"),
               text); /* the first line; the others say where, and have the stack */
}

/* Called for the failure of a task that nobody awaits.  A timeout is a notice instead. */
static void sink(void *data, struct orr_task *task)
{
    struct guest *guest = data;
    const struct orr_result *result = orr_task_result(task);
    guest->failures++;
    if (guest->quiet)
        return;
    if (!guest->L || orr_lua_push_report(guest->L, task)) {
        printf("failure: %s\n", result && result->message ? result->message : "unknown");
        return;
    }
    const char *report = lua_tostring(guest->L, -1);
    printf("failure: %.*s\n", (int)strcspn(report, "\n"), report);
    lua_pop(guest->L, 1);
}

/* --- Start and end ---------------------------------------------------------------------------- */

int guest_open(struct guest *guest)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* shows each line when it is printed */
    /* Unloading a script waits for its cleanup, and the host waits, too: so the grace period is
     * short. */
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
        /* Shorter deadlines than the default of a second: a user who has pressed a key does not
         * wait that long. */
        .lua = { .mount = mount,
                 .deadline_ns = { [ORR_LUA_TASK] = 200 * MS, [ORR_LUA_HANDLER] = 200 * MS, [ORR_LUA_TIMER] = 200 * MS },
                 .strikes = guest->forgive ? UINT32_MAX : 0,
                 /* Old keys are worth less than new ones. */
                 .events_policy = ORR_EVENTS_DROP_OLDEST,
                 .notice = notice,
                 .notice_data = guest },
    };
    int error = orr_script_load(guest->rt, &options, &guest->script);
    if (error)
        return failed(path, error);
    guest->L = orr_script_state(guest->script);
    /* The script's first turn, in which it registers its handlers.  An event emitted before
     * would find none, and be lost. */
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

/* --- Events ----------------------------------------------------------------------------------- */

void guest_emit(struct guest *guest, const char *event, const struct orr_pair *fields, unsigned count)
{
    struct orr_value data = { .type = ORR_TABLE, .table = { .pairs = fields, .count = count } };
    if (guest->L)
        guest->refused += orr_events_emit_value(guest->L, event, &data) != 0;
}

void guest_tick(struct guest *guest)
{
    guest->ticks++;
    /* There is something to do at this moment. */
    guest->busy_ticks += orr_runtime_next_deadline(guest->rt) == 0;
    guest_emit(guest, "tick", &(struct orr_pair){ orr_value_string("number"), orr_value_integer(guest->ticks) }, 1);
}

void guest_summary(const struct guest *guest)
{
    printf("host: ticks %u, while a script was busy %u, timeouts %u, disabled %u, failures %u, refused events %u\n",
           guest->ticks, guest->busy_ticks, guest->timeouts, guest->disabled, guest->failures, guest->refused);
}
