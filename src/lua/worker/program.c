#include "lua/worker/program.h"

#include "base/text.h"
#include "lua/isolate/quota.h"
#include "lua/sandbox/source.h"
#include "lua/values/message.h"

#include <errno.h>
#include <string.h>

/* --- Code ------------------------------------------------------------------------------------- */

static void code_free(struct code *code, const struct alloc *alloc)
{
    if (code->name)
        alloc_free(alloc, code->name, strlen(code->name) + 1);
    if (code->bytes)
        alloc_free(alloc, code->bytes, code->size);
    *code = (struct code){ 0 };
}

static bool take(struct program *program, size_t bytes)
{
    if (!quota_take(program->settings->quota, bytes)) {
        program->over_quota = true;
        return false;
    }
    program->charged += bytes;
    return true;
}

/* A lua_Writer.  Many pieces are a single byte. */
static int add_piece(lua_State *L, const void *bytes, size_t size, void *data)
{
    (void)L;
    struct message *all = data;
    if (all->capacity - all->size < size && message_grow(all, size))
        return 1;
    if (size) /* Lua 5.5 ends with an empty piece at NULL */
        memcpy(all->bytes + all->size, bytes, size);
    all->size += size;
    return 0;
}

/*
 * Dumps the function at the top, which is popped.  False, with a message pushed, for lack of
 * memory.
 */
static bool take_function(struct program *program, struct code *code, lua_State *L)
{
    struct message all;
    message_init(&all, &program->alloc);
    bool dumped = !lua_dump(L, add_piece, &all, false) && take(program, all.size);
    lua_pop(L, 1);
    char *bytes = dumped ? alloc_resize(&all.alloc, all.bytes, all.capacity, all.size) : NULL;
    if (!bytes) {
        message_free(&all);
        lua_pushliteral(L, "not enough memory");
        return false;
    }
    code->bytes = bytes;
    code->size = all.size;
    return true;
}

/*
 * Only the code of a function is sent.  So its only upvalue may be the globals.  False, with the
 * reason pushed.
 */
static bool check_upvalues(lua_State *L, int index)
{
    for (int i = 1;; i++) {
        const char *name = lua_getupvalue(L, index, i);
        if (!name)
            return true;
        bool is_globals = i == 1 && lua_istable(L, -1) && (!strcmp(name, "_ENV") || !strcmp(name, "(no name)"));
        lua_pop(L, 1);
        if (is_globals)
            continue;
        lua_pushfstring(L,
                        "the function uses the variable '%s' of the code around it, which a worker does not have: "
                        "pass it as an argument, or require it inside",
                        name);
        return false;
    }
}

static bool from_function(struct program *program, struct code *code, lua_State *L, int index)
{
    if (lua_iscfunction(L, index)) {
        lua_pushliteral(L, "a function written in C cannot be given to a worker; give it a Lua function or a text");
        return false;
    }
    if (!check_upvalues(L, index))
        return false;
    lua_pushvalue(L, index);
    return take_function(program, code, L);
}

/*
 * A text is compiled in the isolate that makes the worker, so that syntax errors are reported
 * there.  It is compiled only once, because that can take long: jobs get the bytecode.
 */
static bool from_text(struct program *program, struct code *code, lua_State *L, int index)
{
    struct orr_isolate *iso = isolate_of(L);
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    if (iso->limits.longest_source && size > iso->limits.longest_source) {
        lua_pushfstring(L, "the script has %I bytes, expected at most %I", (lua_Integer)size,
                        (lua_Integer)iso->limits.longest_source);
        return false;
    }
    int error = source_load_text(L, text, size, &(struct source_options){ iso, code->name, "t", 0 });
    if (!error)
        return take_function(program, code, L);
    if (error != -EPROTO)
        lua_pushliteral(L, "not enough memory");
    return false;
}

/* Copies the beginning of a name: as much as messages show. */
static char *copy_name(struct program *program, const char *name)
{
    char shown[TEXT_NAME_ROOM];
    text_name(shown, name);
    return take(program, strlen(shown) + 1) ? alloc_copy(&program->alloc, shown) : NULL;
}

static bool code_set(struct program *program, struct code *code, lua_State *L, int index, const char *name)
{
    bool set = false;
    code->name = copy_name(program, name);
    if (!code->name)
        lua_pushliteral(L, "not enough memory");
    else
        set = lua_isfunction(L, index) ? from_function(program, code, L, index) : from_text(program, code, L, index);
    if (!set)
        code_free(code, &program->alloc);
    return set;
}

bool program_load(const struct code *code, lua_State *L)
{
    return luaL_loadbufferx(L, code->bytes, code->size, code->name, "b") == LUA_OK;
}

/* --- Programs --------------------------------------------------------------------------------- */

struct program *program_new(struct orr_isolate *iso, size_t memory)
{
    const struct alloc *alloc = &iso->rt->alloc;
    struct program *program = alloc_zeroed(alloc, sizeof *program);
    if (!program)
        return NULL;
    program->references = 1;
    program->alloc = *alloc;
    if (settings_for_jobs(iso->settings, memory, &program->settings)) {
        alloc_free(alloc, program, sizeof *program);
        return NULL;
    }
    quota_force(program->settings->quota, sizeof *program + sizeof *program->settings);
    program->charged = sizeof *program + sizeof *program->settings;
    return program;
}

bool program_set_code(struct program *program, lua_State *L, int index, const char *name)
{
    return code_set(program, &program->code, L, index, name);
}

bool program_add_module(struct program *program, lua_State *L, int index, const char *module, const char *name)
{
    size_t size = strlen(module) + 1;
    struct program_module *made = take(program, sizeof *made + size) ? alloc_zeroed(&program->alloc, sizeof *made)
                                                                     : NULL;
    struct program_module **last = &program->modules;
    if (!made || !(made->name = alloc_copy(&program->alloc, module))) {
        if (made)
            alloc_free(&program->alloc, made, sizeof *made);
        lua_pushliteral(L, "not enough memory");
        return false;
    }
    while (*last)
        last = &(*last)->next;
    *last = made;
    return code_set(program, &made->code, L, index, name);
}

static bool is_same_code(const struct code *one, const struct code *other)
{
    return one->size == other->size && !strcmp(one->name, other->name) && !memcmp(one->bytes, other->bytes, one->size);
}

bool program_is_kin(const struct program *one, const struct program *other)
{
    const struct program_module *a = one->modules, *b = other->modules;
    for (; a && b; a = a->next, b = b->next)
        if (strcmp(a->name, b->name) != 0 || !is_same_code(&a->code, &b->code))
            return false;
    /* Settings for jobs depend on these two alone. */
    return !a && !b && one->settings->host == other->settings->host &&
           one->settings->limits.memory == other->settings->limits.memory;
}

struct program *program_ref(struct program *program)
{
    atomic_fetch_add_explicit(&program->references, 1, memory_order_relaxed);
    return program;
}

void program_unref(struct program *program)
{
    /*
     * Release, so that every use comes before the end; acquire in the thread that frees the
     * program.
     */
    if (!program || atomic_fetch_sub_explicit(&program->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = program->alloc;
    while (program->modules) {
        struct program_module *module = program->modules;
        program->modules = module->next;
        code_free(&module->code, &alloc);
        alloc_free(&alloc, module->name, strlen(module->name) + 1);
        alloc_free(&alloc, module, sizeof *module);
    }
    code_free(&program->code, &alloc);
    quota_give(program->settings->quota, program->charged);
    settings_unref(program->settings);
    alloc_free(&alloc, program, sizeof *program);
}
