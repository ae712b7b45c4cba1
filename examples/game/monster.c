#include "monster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* --- What a script can do --------------------------------------------------------------------- */

static int name(void *data, struct orr_call *call)
{
    const struct monster *monster = data;
    call->results[0] = orr_value_string(monster->name);
    call->result_count = 1;
    return 0;
}

static int look(void *data, struct orr_call *call)
{
    const struct monster *monster = data;
    call->results[0] = orr_value_integer(monster->field->hero - monster->column);
    call->result_count = 1;
    return 0;
}

static int step(void *data, struct orr_call *call)
{
    struct monster *monster = data;
    if (call->count != 1 || call->arguments[0].type != ORR_INTEGER)
        return orr_call_fail(call, -EINVAL, "expected -1, 0 or 1");
    int64_t side = call->arguments[0].integer;
    if (side < -1 || side > 1)
        return orr_call_fail(call, -EINVAL, "expected -1, 0 or 1, got %lld", (long long)side);
    int column = monster->column + (int)side;
    if (monster->stepped != monster->field->frame && column >= 0 && column < FIELD) {
        monster->column = column;
        monster->stepped = monster->field->frame;
        monster->steps++;
    }
    call->results[0] = orr_value_integer(monster->column);
    call->result_count = 1;
    return 0;
}

static int say(void *data, struct orr_call *call)
{
    const struct monster *monster = data;
    if (call->count != 1 || call->arguments[0].type != ORR_STRING)
        return orr_call_fail(call, -EINVAL, "expected a text");
    printf("%4u  %s: \"%.60s\"\n", monster->field->frame, monster->name, call->arguments[0].string.bytes);
    return 0;
}

static void prepare(void *data, struct lua_State *L)
{
    orr_lua_set_function(L, "monster.name", name, data);
    orr_lua_set_function(L, "monster.look", look, data);
    orr_lua_set_function(L, "monster.step", step, data);
    orr_lua_set_function(L, "monster.say", say, data);
}

/* --- Loading and unloading -------------------------------------------------------------------- */

static void notice(void *data, struct lua_State *L, enum orr_lua_notice notice, const char *text)
{
    struct monster *monster = data;
    (void)L;
    monster->timeouts += notice == ORR_LUA_TIMED_OUT;
    printf("%4u  %s: %.*s\n", monster->field->frame, monster->name, (int)strcspn(text, "\n"), text);
}

static void set_name(struct monster *monster, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(monster->name, sizeof monster->name, "%s", slash ? slash + 1 : path);
    monster->name[strcspn(monster->name, ".")] = 0;
}

int monster_load(struct monster *monster, struct field *field, const char *path, int column)
{
    *monster = (struct monster){ .field = field, .column = column };
    set_name(monster, path);
    struct orr_script_options options = {
        .source = { .path = path, .name = monster->name },
        .prepare = prepare,
        .prepare_data = monster,
        /* Of the four milliseconds that all monsters have in a frame. */
        .lua = { .slice_ns = 1 * MS,
                 .deadline_ns = { [ORR_LUA_TASK] = 100 * MS, [ORR_LUA_SCRIPT] = 100 * MS },
                 .memory_limit = (size_t)1 << 20,
                 .max_tasks = 100,
                 .notice = notice,
                 .notice_data = monster },
    };
    return orr_script_load(field->rt, &options, &monster->script);
}

void monster_unload(struct monster *monster)
{
    orr_script_unload(monster->script);
    monster->script = NULL;
}
