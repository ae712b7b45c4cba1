#include "lua/task/cancellation.h"

#include "lua/limits/stack_trace.h"
#include "lua/task/task.h"

#include <stdio.h>
#include <string.h>

bool cancellation_is_error(lua_State *L, int index)
{
    return lua_type(L, index) == LUA_TSTRING && !strcmp(lua_tostring(L, index), CANCELLATION_TEXT);
}

void cancellation_find_place(lua_State *co, char *text, size_t size)
{
    lua_Debug at;
    *text = '\0';
    if (co && stack_trace_find_script(co, 0, &at))
        snprintf(text, size, " at %s:%d", at.short_src, at.currentline);
}

/* Warns of a task that does not end, but catches one cancellation after the other. */
static void warn(const struct ltask *task, lua_State *L)
{
    char place[sizeof task->iso->cancellations.place];
    const char *name = orr_task_name(task->task);
    cancellation_find_place(L, place, sizeof place);
    log_line(&task->iso->rt->log, ORR_LOG_WARNING,
             "task '%s' was closed, but has caught '" CANCELLATION_TEXT
             "' %d times and goes on%s; every wait of a closed "
             "task raises it: let it pass, or return",
             name ? name : "(unnamed)", UINT8_MAX, place);
}

void cancellation_note(struct ltask *task, lua_State *L)
{
    struct cancellations *self = &task->iso->cancellations;
    bool counted = task->cancellations < UINT8_MAX;
    task->cancellations += counted;
    if (task->cancellations == 2) {
        self->task = task;
        cancellation_find_place(L, self->place, sizeof self->place);
    }
    if (counted && task->cancellations == UINT8_MAX)
        warn(task, L);
}

const char *cancellation_count(const struct ltask *task, char text[16])
{
    bool more = task->cancellations == UINT8_MAX;
    snprintf(text, 16, "%s%d", more ? "over " : "", task->cancellations - more);
    return text;
}

const char *cancellation_ignored(const struct orr_isolate *iso, const struct ltask *task)
{
    if (!task || task->cancellations < 2)
        return NULL;
    return iso->cancellations.task == task ? iso->cancellations.place : "";
}
