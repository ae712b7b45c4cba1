#include "lua/task/result.h"

#include "lua/limits/timeout_report.h"
#include "lua/task/cancellation.h"
#include "lua/task/told.h"

#include <string.h>

/* --- Values ----------------------------------------------------------------------------------- */

void result_set_value(lua_State *L, struct ltask *self)
{
    int key = registry_push_table_of(&self->iso->registry, L, self->anchor);
    lua_rawgeti(L, -1, key);
    lua_pushvalue(L, -3);
    lua_setiuservalue(L, -2, LTASK_VALUE);
    lua_pop(L, 3);
}

void result_keep(struct ltask *self, lua_State *co, int results)
{
    self->results = results;
    self->co = co;
    if (results > 1)
        return;
    if (!results)
        lua_pushnil(co);
    result_set_value(co, self);
    self->co = NULL;
    if (!self->exposed)
        isolate_recycle(self->iso, co);
}

void result_keep_provisional(struct ltask *self, int results)
{
    self->results = results;
    if (results) {
        lua_xmove(self->co, self->creator, 1);
        lua_setiuservalue(self->creator, 1, LTASK_VALUE);
    }
    ltask_give_up(self);
}

void result_keep_completed(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    int anchor = self->completed_with;
    self->completed_with = 0;
    isolate_push_anchored(iso, iso->L, anchor);
    lua_State *co = lua_tothread(iso->L, -1);
    result_set_value(iso->L, self);
    isolate_unanchor(iso, iso->L, anchor);
    result_keep(self, co, lua_gettop(co));
}

int ltask_complete(lua_State *L, struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_pushvalue(L, 2);
    self->completed_with = isolate_anchor(iso, L);
    self->completed = true;
    int error = isolate_visit(iso);
    if (!error) {
        error = orr_task_complete(self->task, (struct orr_result){ 0 });
        isolate_leave(iso);
    }
    if (error)
        return luaL_error(L, "task:complete: %s",
                          error == -EALREADY ? "the task is completed already" : strerror(-error));
    if (ltask_is_over(self))
        result_keep_completed(self);
    return 0;
}

/* --- Errors ----------------------------------------------------------------------------------- */

/* The text of an error of the core, or of a C task. */
static const char *error_text(const struct orr_result *result)
{
    if (result->error == -ECANCELED)
        return CANCELLATION_TEXT;
    if (result->error == -ETIME)
        return TIMEOUT_TEXT; /* the message is the report */
    return result->message ? result->message : strerror(-result->error);
}

void push_error_of(lua_State *L, struct orr_isolate *iso, const struct orr_result *result)
{
    const struct kept_error *kept = result->error == -ESCRIPT ? result->value : NULL;
    if (kept && kept->iso == iso)
        kept_error_push(kept, L);
    else
        lua_pushstring(L, error_text(result));
}

bool result_is_error(lua_State *co, const struct orr_result *result)
{
    if (result->error != -ESCRIPT) /* not pushed: that might need memory */
        return lua_type(co, -1) == LUA_TSTRING && !strcmp(lua_tostring(co, -1), error_text(result));
    kept_error_push(result->value, co);
    bool same = lua_rawequal(co, -1, -2);
    lua_pop(co, 1);
    return same;
}

/* --- Outcomes --------------------------------------------------------------------------------- */

/* The results of a task that ended well, whose handle is at an index of L. */
static int push_results(lua_State *L, struct ltask *self, int handle)
{
    lua_pushboolean(L, true);
    if (self->results == 0)
        return 1;
    if (self->results == 1) {
        lua_getiuservalue(L, handle, LTASK_VALUE);
        return 2;
    }
    luaL_checkstack(L, self->results + 1, "too many results");
    for (int i = 1; i <= self->results; i++) {
        lua_pushvalue(self->co, i);
        lua_xmove(self->co, L, 1);
    }
    return self->results + 1;
}

/* The error of a task that has failed, whose handle is at an index of L. */
static void push_failure(lua_State *L, struct ltask *self, int handle)
{
    push_error_of(L, self->iso, outcome_of(self->task));
    told_note(self->iso, L, handle);
}

int ltask_push_outcome(lua_State *L, struct ltask *self, int handle)
{
    handle = lua_absindex(L, handle);
    if (self->task)
        scope_observe(self->task);
    if (self->phase == LTASK_OK)
        return push_results(L, self, handle);
    lua_pushboolean(L, false);
    if (self->phase != LTASK_FAILED)
        lua_pushliteral(L, CANCELLATION_TEXT);
    else if (self->task)
        push_failure(L, self, handle);
    else
        lua_getiuservalue(L, handle, LTASK_VALUE);
    return 2;
}

int ltask_push_results(lua_State *L, struct ltask *self, int handle)
{
    int first = lua_gettop(L) + 1;
    int count = ltask_push_outcome(L, self, handle);
    if (!lua_toboolean(L, first)) {
        lua_remove(L, first);
        return count - 1;
    }
    lua_pushnil(L);
    lua_replace(L, first);
    return count;
}
