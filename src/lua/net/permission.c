#include "lua/net/permission.h"

#include "lua/api/primitive.h"
#include "lua/isolate/grants.h"
#include "lua/isolate/settings.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <stdio.h>

#define QUESTION_CLASS "orrery.question"

struct question {
    struct orr_future *answer; /* NULL when it has come */
    enum gate_use use;
    char rule[GATE_GRANT];
};

static int question_gc(lua_State *L)
{
    struct question *self = lua_touserdata(L, 1);
    orr_future_unref(self->answer);
    self->answer = NULL;
    return 0;
}

/* The grants of an isolate whose host is to be asked; NULL if it is not. */
static const struct grants *asking(const struct orr_isolate *iso)
{
    const struct grants *grants = iso->settings->grants;
    return iso->gate && grants && grants->ask && !iso->settings->for_jobs ? grants : NULL;
}

/* --- Asking ----------------------------------------------------------------------------------- */

/* The answer has come. */
static int settle(const struct orr_isolate *iso, struct question *self, bool granted)
{
    orr_future_unref(self->answer);
    self->answer = NULL;
    return granted ? gate_add(iso->gate, self->use, self->rule) : 0;
}

static int await_answer(lua_State *L, const char *what, struct question *self)
{
    struct ltask *task = ltask_waiting(L, what);
    int error = orr_future_wait(task->task, &task->wait, self->answer);
    return error ? error : settle(isolate_of(L), self, !orr_future_result(self->answer)->error);
}

/* Asks the host; it may answer at once. */
static int ask(lua_State *L, const struct grants *grants, const char *what, struct question *self)
{
    static const enum orr_grant of[GATE_USES] = { ORR_GRANT_CONNECT, ORR_GRANT_LISTEN };
    struct orr_isolate *iso = isolate_of(L);
    int error = VISITED(iso, orr_future_new(iso->rt, &(struct orr_future_options){ .foreign = true }, &self->answer));
    if (error)
        return error;
    struct orr_grant_request request = { .L = L, .grant = of[self->use], .rule = self->rule, .answer = self->answer };
    int verdict = grants->ask(grants->ask_data, &request);
    return verdict == -EAGAIN ? await_answer(L, what, self) : settle(iso, self, verdict == 1);
}

static struct question *new_question(lua_State *L, int slot, enum gate_use use)
{
    struct question *self = primitive_new(L, QUESTION_CLASS, sizeof *self, 0);
    self->use = use;
    lua_replace(L, slot);
    return self;
}

/* Goes on with a question that was asked: it is settled, or the task waits for its answer. */
static int go_on(lua_State *L, const char *what, struct question *self)
{
    return self->answer ? await_answer(L, what, self) : 0;
}

int permission_ask(lua_State *L, int slot, const char *what, const struct gate_request *request)
{
    struct question *self = lua_touserdata(L, slot);
    if (self)
        return go_on(L, what, self);
    const struct grants *grants = asking(isolate_of(L));
    if (!grants || gate_grants(isolate_of(L)->gate, request))
        return 0;
    self = new_question(L, slot, request->use);
    gate_describe(request, self->rule);
    return ask(L, grants, what, self);
}

int permission_ask_lookup(lua_State *L, int slot, const char *what, const char *host, uint16_t port)
{
    struct question *self = lua_touserdata(L, slot);
    if (self)
        return go_on(L, what, self);
    const struct grants *grants = asking(isolate_of(L));
    if (!grants || gate_grants_lookup(isolate_of(L)->gate, host))
        return 0;
    self = new_question(L, slot, GATE_CONNECT);
    snprintf(self->rule, sizeof self->rule, "%s:%u", host, port);
    return ask(L, grants, what, self);
}

/* --- Refusals --------------------------------------------------------------------------------- */

bool permission_is_simulated(const struct orr_open *open)
{
    struct orr_network_host *here = NULL;
    return !orr_network_here(open, &here) && here;
}

const char *permission_message(const struct orr_isolate *iso, int error, const struct gate_request *request,
                               char text[GATE_TEXT])
{
    if (error != -EACCES || !request->address || !iso->gate)
        return NULL;
    if (!gate_grants(iso->gate, request))
        gate_explain(request, text);
    else if (address_family(request->address) == AF_UNIX)
        snprintf(text, GATE_TEXT, "the path has a symbolic link in it, or may not be used");
    else
        return NULL;
    return text;
}

void permission_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", question_gc }, { NULL, NULL } };
    isolate_class(iso, L, QUESTION_CLASS, methods);
}
