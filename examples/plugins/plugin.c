#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

static void say(const struct plugin *plugin, const char *what, const char *text)
{
    /* Its first line. */
    printf("[%s] %s%.*s\n", plugin->name, what, (int)strcspn(text, "\n"), text);
}

/* --- What a plugin can do --------------------------------------------------------------------- */

static int log_text(void *data, struct orr_call *call)
{
    if (call->count != 1 || call->arguments[0].type != ORR_STRING)
        return orr_call_fail(call, -EINVAL, "expected a text");
    say(data, "", call->arguments[0].string.bytes);
    return 0;
}

static int version(void *data, struct orr_call *call)
{
    (void)data;
    call->results[0] = orr_value_string("1.0");
    call->result_count = 1;
    return 0;
}

/* Called each time before it is compiled: its state is new then. */
static void prepare(void *data, struct lua_State *L)
{
    if (orr_lua_set_function(L, "host.log", log_text, data) || orr_lua_set_function(L, "host.version", version, data))
        say(data, "", "has to do without the host's functions");
    orr_events_reserve(L, "tick"); /* only the host emits it */
}

static void notice(void *data, struct lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)L;
    say(data, notice == ORR_LUA_MEMORY_SOFT ? "hogs memory: " : "contained: ", text);
}

/* --- Loading and unloading -------------------------------------------------------------------- */

static void remember(struct plugin *plugin, const struct stat *file)
{
    plugin->changed = file->st_mtim;
    plugin->size = file->st_size;
}

static bool is_another(const struct plugin *plugin, const struct stat *file)
{
    return plugin->size != file->st_size || plugin->changed.tv_sec != file->st_mtim.tv_sec ||
           plugin->changed.tv_nsec != file->st_mtim.tv_nsec;
}

struct plugin *plugin_load(struct orr_runtime *rt, const char *name, const char *path, const struct stat *file)
{
    struct plugin *plugin = calloc(1, sizeof *plugin);
    if (!plugin)
        return NULL;
    snprintf(plugin->name, sizeof plugin->name, "%s", name);
    remember(plugin, file);
    say(plugin, "", "is loaded");
    /* Must live as long as the script. */
    static const char *const modules[] = { "async", "events", "json", "loop", NULL };
    struct orr_value why;
    struct orr_script_options options = {
        .source = { .path = path, .name = plugin->name },
        .prepare = prepare,
        .prepare_data = plugin,
        .lua = { .deadline_ns = { [ORR_LUA_TASK] = 50 * MS,
                                  [ORR_LUA_SCRIPT] = 50 * MS,
                                  [ORR_LUA_HANDLER] = 50 * MS,
                                  [ORR_LUA_TIMER] = 50 * MS },
                 .memory_limit = (size_t)4 << 20,
                 .memory_soft = (size_t)2 << 20,
                 .max_tasks = 1000,
                 .modules = modules,
                 .notice = notice,
                 .notice_data = plugin },
        .why = &why,
    };
    int error = orr_script_load(rt, &options, &plugin->script);
    if (!error)
        return plugin;
    say(plugin, "is not usable: ", why.type == ORR_STRING ? why.string.bytes : strerror(-error));
    orr_values_free(&why, 1);
    free(plugin);
    return NULL;
}

void plugin_update(struct plugin *plugin, const struct stat *file)
{
    if (!is_another(plugin, file))
        return;
    say(plugin, "", "has changed, and is loaded again");
    int error = orr_script_reload(plugin->script);
    if (error == -EBUSY)
        return; /* the next scan tries again */
    remember(plugin, file);
    if (error)
        say(plugin, "is not usable, until it changes again: ",
            orr_script_error(plugin->script) ? orr_script_error(plugin->script) : strerror(-error));
}

void plugin_emit(const struct plugin *plugin, const char *event, int64_t number)
{
    struct lua_State *L = orr_script_state(plugin->script);
    struct orr_value data = orr_value_integer(number);
    int error = L ? orr_events_emit_value(L, event, &data) : 0;
    if (error)
        say(plugin, "has not heard of an event: ", strerror(-error));
}

void plugin_unload(struct plugin *plugin)
{
    int error = orr_script_unload(plugin->script);
    say(plugin, "", error ? strerror(-error) : "is unloaded");
    free(plugin);
}
