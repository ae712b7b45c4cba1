#include "lua/limits/hooks.h"

#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/registry.h"
#include "lua/isolate/visit.h"
#include "lua/limits/preempt.h"

#include <string.h>

static const char hooks_key; /* in the registry: the hook of each coroutine that has one */

/* A full userdata.  Its user value is the script's function. */
struct script_hook {
    int mask;          /* as the script has given it */
    int count;         /* as the script has given it; 0 for none */
    int left;          /* instructions until the script's next count event */
    int looks_left;    /* lines until the next check, after Lua could not be suspended */
    int skips;         /* unsafe yield points skipped so far */
    int late;          /* events since the last count event while the interrupt is requested */
    bool at_beginning; /* the running function has not executed an instruction yet */
};

/* The number of instructions until the next count event. */
static int next_piece(const struct orr_isolate *iso, const struct script_hook *hook)
{
    if (iso->limits.mode != ORR_LUA_SIGNAL)
        return hook->count;
    return hook->count && hook->left < HOOK_PIECE ? hook->left : HOOK_PIECE;
}

/*
 * Replaces the coroutine on top of the stack with its struct script_hook, which is also returned.
 * Pushes nil and returns NULL if it has none.  Never allocates.
 */
static struct script_hook *push_hook(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &hooks_key);
    lua_insert(L, -2);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    return lua_touserdata(L, -1);
}

/* --- The hook --------------------------------------------------------------------------------- */

/* [hook]: calls the script's function. */
static void tell(lua_State *L, const lua_Debug *event)
{
    static const char *const names[] = { "call", "return", "line", "count", "tail call" };
    lua_getiuservalue(L, -1, 1);
    lua_pushstring(L, names[event->event]);
    if (event->currentline >= 0)
        lua_pushinteger(L, event->currentline);
    else
        lua_pushnil(L);
    lua_call(L, 2, 0);
}

/* Whether the script asked for this event.  Updates `left` at a count event. */
static bool is_wanted(lua_State *L, struct script_hook *hook, int event)
{
    if (event != LUA_HOOKCOUNT)
        return hook->mask & (event == LUA_HOOKTAILCALL ? LUA_MASKCALL : 1 << event);
    hook->left -= lua_gethookcount(L);
    if (!hook->count || hook->left > 0)
        return false;
    hook->left = hook->count;
    return true;
}

/* Lua would report a call twice if the hook yielded before the function's first instruction. */
static void note_beginning(lua_State *L, struct script_hook *hook, lua_Debug *event)
{
    if (!(hook->mask & LUA_MASKCALL))
        return;
    if (event->event == LUA_HOOKCALL || event->event == LUA_HOOKTAILCALL) {
        lua_getinfo(L, "S", event);
        hook->at_beginning = *event->what != 'C';
    } else if (event->event == LUA_HOOKRET) {
        hook->at_beginning = false;
    }
}

/*
 * Whether this event is an unsafe yield point.  After SKIPS_MAX of them the answer is no, so that a
 * script that does nothing but call functions is suspended all the same.
 */
static bool skips(struct script_hook *hook)
{
    enum { SKIPS_MAX = 100 };
    bool skip = hook->at_beginning && hook->skips++ < SKIPS_MAX;
    hook->at_beginning = false;
    if (!skip)
        hook->skips = 0;
    return skip;
}

/*
 * Lua also counts the instructions of the script's hook function, where no count event is raised.
 * In a loop every count event can get lost that way.  So after LATE other events, this requests a
 * count event at the next instruction.
 */
static void hurry(lua_State *L, lua_Hook ours, struct script_hook *hook)
{
    enum { LATE = 100 };
    if (hook->late++ == LATE)
        lua_sethook(L, ours, lua_gethookmask(L), 1);
}

/*
 * Checks whether the slice is over.  With a line hook, this happens at line events: Lua must not be
 * suspended between a count event and a line event, and a finalizer that runs between them makes
 * Lua report the line twice.
 */
static void look(struct orr_isolate *iso, lua_State *L, struct script_hook *hook, int event)
{
    enum { LINES = 100 };
    bool lines = hook->mask & LUA_MASKLINE;
    if (event != (lines ? LUA_HOOKLINE : LUA_HOOKCOUNT) || !interrupt_is_requested(&iso->interrupt) || skips(hook))
        return;
    if (hook->looks_left > 0 && hook->looks_left-- && !execution_is_ending(&iso->execution))
        return;
    if (!preempt_in_script_hook(iso, L) && lines)
        hook->looks_left = LINES;
}

/* Restores the piece after hurry(), or shortens it if the script's count is nearly full. */
static void set_piece(const struct orr_isolate *iso, lua_State *L, lua_Hook ours, const struct script_hook *hook)
{
    int piece = next_piece(iso, hook);
    if (lua_gethookcount(L) != piece)
        lua_sethook(L, ours, lua_gethookmask(L), piece);
}

static void on_event(lua_State *L, lua_Debug *event)
{
    struct orr_isolate *iso = isolate_find(L);
    lua_pushthread(L);
    struct script_hook *hook = push_hook(L);
    if (!hook || !iso) { /* the coroutine inherited the C hook from its creator */
        lua_sethook(L, NULL, 0, 0);
        if (iso)
            interrupt_switched(&iso->interrupt, iso);
        return;
    }
    bool ending = execution_is_ending(&iso->execution);
    bool wanted = is_wanted(L, hook, event->event);
    if (event->event == LUA_HOOKCOUNT) {
        hook->late = 0;
        if (!ending)
            set_piece(iso, L, on_event, hook);
    } else if (interrupt_is_requested(&iso->interrupt)) {
        hurry(L, on_event, hook);
    }
    if (wanted && !ending)
        tell(L, event);
    note_beginning(L, hook, event);
    /* The script may have removed the hook. */
    if (execution_level(&iso->execution) && lua_gethook(L) == on_event)
        look(iso, L, hook, event->event);
}

/* --- debug.sethook and debug.gethook ---------------------------------------------------------- */

/*
 * The target coroutine: the first argument, or the caller.  `*before` is the number of arguments
 * before the function: 1 if the coroutine is given, else 0.
 */
static lua_State *meant(lua_State *L, int *before)
{
    *before = lua_isthread(L, 1);
    return *before ? lua_tothread(L, 1) : L;
}

/* Pushes the target coroutine, without touching its stack, which may be full. */
static void push_meant(lua_State *L, int before)
{
    if (before)
        lua_pushvalue(L, 1);
    else
        lua_pushthread(L);
}

static void refuse_counted(lua_State *L, const struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        luaL_error(L, "debug hooks are not available while the host counts instructions (ORR_LUA_COUNT)");
}

static int mask_of(const char *text, int count)
{
    return (strchr(text, 'c') ? LUA_MASKCALL : 0) | (strchr(text, 'r') ? LUA_MASKRET : 0) |
           (strchr(text, 'l') ? LUA_MASKLINE : 0) | (count > 0 ? LUA_MASKCOUNT : 0);
}

static void push_mask(lua_State *L, int mask)
{
    lua_pushfstring(L, "%s%s%s", mask & LUA_MASKCALL ? "c" : "", mask & LUA_MASKRET ? "r" : "",
                    mask & LUA_MASKLINE ? "l" : "");
}

/* Never raises, because the hook is locked meanwhile. */
static void set(struct orr_isolate *iso, lua_State *co, const struct script_hook *hook)
{
    interrupt_lock_hook(iso);
    if (hook)
        lua_sethook(co, on_event, hook->mask | (iso->limits.mode == ORR_LUA_SIGNAL ? LUA_MASKCOUNT : 0),
                    next_piece(iso, hook));
    else
        lua_sethook(co, NULL, 0, 0);
    interrupt_unlock_hook(iso);
}

/* [thread] [function] [mask] [count] */
static int hook_set(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    refuse_counted(L, iso);
    int before;
    lua_State *co = meant(L, &before);
    struct script_hook *hook = NULL;
    if (lua_isnoneornil(L, before + 1)) {
        lua_settop(L, before + 1);
    } else {
        const char *events = luaL_checkstring(L, before + 2);
        luaL_checktype(L, before + 1, LUA_TFUNCTION);
        int count = (int)luaL_optinteger(L, before + 3, 0);
        int mask = mask_of(events, count);
        count = mask & LUA_MASKCOUNT ? count : 0;
        hook = lua_newuserdatauv(L, sizeof *hook, 1);
        *hook = (struct script_hook){ .mask = mask, .count = count, .left = count };
        lua_pushvalue(L, before + 1);
        lua_setiuservalue(L, -2, 1);
        lua_replace(L, before + 1);
        hook = mask ? hook : NULL;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &hooks_key);
    push_meant(L, before);
    lua_pushvalue(L, before + 1);
    lua_rawset(L, -3);
    set(iso, co, hook);
    return 0;
}

static int hook_get(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    refuse_counted(L, iso);
    int before, mask, count;
    lua_State *co = meant(L, &before);
    lua_Hook hook = interrupt_foreign_hook(iso, co, &mask, &count);
    struct script_hook *own = NULL;
    if (hook == on_event) {
        push_meant(L, before);
        own = push_hook(L);
        lua_settop(L, own ? lua_gettop(L) : before);
    }
    if (!hook || (hook == on_event && !own)) {
        luaL_pushfail(L);
        return 1;
    }
    if (own)
        lua_getiuservalue(L, -1, 1);
    else
        lua_pushliteral(L, "external hook");
    push_mask(L, own ? own->mask : mask);
    lua_pushinteger(L, own ? own->count : count);
    return 3;
}

/* Replaces a function of the table on top.  False if the table has no such function. */
static bool replace(struct orr_isolate *iso, lua_State *L, const char *name, lua_CFunction function)
{
    bool there = lua_getfield(L, -1, name) == LUA_TFUNCTION;
    if (there) {
        lua_pushlightuserdata(L, iso);
        lua_pushcclosure(L, function, 1);
        lua_setfield(L, -3, name);
    }
    lua_pop(L, 1);
    return there;
}

void hooks_open(struct orr_isolate *iso, lua_State *L)
{
    if (lua_getglobal(L, LUA_DBLIBNAME) == LUA_TTABLE) {
        registry_push_weak_table(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &hooks_key);
        if (replace(iso, L, "sethook", hook_set))
            interrupt_set_script_hook(&iso->interrupt, on_event);
        replace(iso, L, "gethook", hook_get);
    }
    lua_pop(L, 1);
}
