#include "lua/limits/notices.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/execution.h"

#include <string.h>

struct notice {
    struct notice *next;
    enum orr_lua_notice kind;
    int64_t handler;
    bool told;      /* the event is also reported elsewhere: the notice is not logged */
    uint64_t after; /* task failures before it, which must be reported first */
    size_t size;    /* of the whole block */
    char text[];
};

/* Counts as a call, so that the isolate stays if the host closes it in its callback. */
static void deliver(struct orr_isolate *iso, const struct notice *notice)
{
    execution_begin_call(&iso->execution);
    iso->notices.disabled = notice->handler;
    if (iso->limits.notice)
        iso->limits.notice(iso->limits.notice_data, iso->L, notice->kind, notice->text);
    else
        log_text(&iso->log, ORR_LOG_WARNING, "", notice->text);
    iso->notices.disabled = 0;
    execution_end_call(&iso->execution);
}

static bool is_due(const struct orr_isolate *iso, const struct notice *notice)
{
    bool at_once = iso->limits.notice && notice->kind != ORR_LUA_DISABLED;
    return at_once || notice->after <= iso->notices.reported;
}

void notices_deliver(struct orr_isolate *iso)
{
    struct alloc alloc = charge_alloc(iso);
    for (struct notice **at = &iso->notices.first; *at;) {
        struct notice *notice = *at;
        if (!is_due(iso, notice)) {
            at = &notice->next;
            continue;
        }
        *at = notice->next;
        deliver(iso, notice);
        alloc_free(&alloc, notice, notice->size);
        at = &iso->notices.first; /* the callback may have changed the list */
    }
}

void notices_deliver_soon(struct orr_isolate *iso)
{
    if (iso->notices.first && !execution_in_slice(&iso->execution))
        notices_deliver(iso);
}

/*
 * Adds a copy of `what` with the text, unless it would go to the log and `told` forbids that.
 * False if it was not added.
 */
static bool add(struct orr_isolate *iso, const struct notice *what, const char *text)
{
    size_t size = sizeof(struct notice) + strlen(text) + 1;
    struct alloc alloc = charge_alloc(iso);
    bool before = charge_begin_report(&iso->charge);
    struct notice *notice = iso->limits.notice || !what->told ? alloc_zeroed(&alloc, size) : NULL;
    charge_end_report(&iso->charge, before);
    if (!notice)
        return false;
    *notice = *what;
    notice->after = iso->notices.failures;
    notice->size = size;
    memcpy(notice->text, text, size - sizeof *notice);
    struct notice **last = &iso->notices.first;
    while (*last)
        last = &(*last)->next;
    *last = notice;
    calm_end(&iso->calm);
    notices_deliver_soon(iso);
    return true;
}

void notices_add(struct orr_isolate *iso, enum orr_lua_notice kind, const char *text)
{
    add(iso, &(struct notice){ .kind = kind, .told = kind == ORR_LUA_COUNTED }, text);
}

bool notices_add_timeout(struct orr_isolate *iso, const char *text)
{
    bool wanted = iso->limits.notice && !iso->limits.timeouts_as_failures;
    return wanted && add(iso, &(struct notice){ .kind = ORR_LUA_TIMED_OUT }, text);
}

void notices_add_disabled(struct orr_isolate *iso, const char *text, int64_t handler)
{
    add(iso, &(struct notice){ .kind = ORR_LUA_DISABLED, .handler = handler }, text);
}

void notices_add_call(struct orr_isolate *iso, const char *text)
{
    add(iso, &(struct notice){ .kind = ORR_LUA_TIMED_OUT }, text);
}
