#include "lua/host/value.h"
#include "lua/isolate/life.h"
#include "lua/task/script.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* --- Blocks ----------------------------------------------------------------------------------- */

struct block {
    struct alloc alloc;
    size_t size;
    struct orr_value content[]; /* values, pairs or bytes */
};

static void *block_new(const struct alloc *alloc, size_t size)
{
    struct block *block = alloc_zeroed(alloc, sizeof *block + size);
    if (!block)
        return NULL;
    block->alloc = *alloc;
    block->size = sizeof *block + size;
    return block->content;
}

static void block_free(const void *content)
{
    if (!content)
        return;
    struct block *block = (void *)((char *)content - offsetof(struct block, content));
    struct alloc alloc = block->alloc;
    alloc_free(&alloc, block, block->size);
}

/* --- Functions -------------------------------------------------------------------------------- */

/* Creates an object that does not refer to a Lua function yet; NULL if memory runs out. */
static struct orr_function *function_new(struct orr_isolate *iso)
{
    struct orr_function *function = alloc_new(&iso->alloc, sizeof *function);
    if (!function)
        return NULL;
    *function =
        (struct orr_function){ .iso = iso, .reference = LUA_NOREF, .script = script_running(iso), .references = 1 };
    isolate_ref(iso);
    return function;
}

struct orr_function *orr_function_ref(struct orr_function *function)
{
    if (function)
        function->references++;
    return function;
}

void orr_function_unref(struct orr_function *function)
{
    if (!function || --function->references)
        return;
    struct orr_isolate *iso = function->iso;
    struct alloc alloc = iso->alloc;
    if (!iso->closing && lua_checkstack(iso->L, 4))
        luaL_unref(iso->L, LUA_REGISTRYINDEX, function->reference);
    alloc_free(&alloc, function, sizeof *function);
    isolate_unref(iso);
}

/* --- Freeing ---------------------------------------------------------------------------------- */

static void free_pairs(const struct orr_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        orr_values_free((struct orr_value *)&pairs[i].key, 1);
        orr_values_free((struct orr_value *)&pairs[i].value, 1);
    }
    block_free(pairs);
}

void orr_values_free(struct orr_value *values, size_t count)
{
    for (size_t i = 0; values && i < count; i++) {
        struct orr_value value = values[i];
        values[i] = (struct orr_value){ .type = ORR_NIL };
        if (value.type == ORR_STRING) {
            block_free(value.string.bytes);
        } else if (value.type == ORR_FUNCTION) {
            orr_function_unref(value.function);
        } else if (value.type == ORR_TABLE) {
            orr_values_free((struct orr_value *)value.table.items, value.table.length);
            block_free(value.table.items);
            free_pairs(value.table.pairs, value.table.count);
        }
    }
}

void value_return_all(struct orr_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].type != ORR_STRING)
            orr_values_free(&values[i], 1);
}

/* --- From the host to the host ---------------------------------------------------------------- */

static bool is_key(const struct orr_value *key)
{
    return key->type != ORR_NIL && !(key->type == ORR_NUMBER && key->number != key->number);
}

static int clone_value(const struct alloc *alloc, const struct orr_value *value, struct orr_value *out, unsigned depth);

/* Copies an array of values.  After an error, `*out` holds the part that was copied. */
static int clone_values(const struct alloc *alloc, const struct orr_value *values, size_t count,
                        const struct orr_value **out, unsigned depth)
{
    *out = NULL;
    if (!count)
        return 0;
    if (!values)
        return -EINVAL;
    struct orr_value *copies = count < SIZE_MAX / 2 / sizeof *copies ? block_new(alloc, count * sizeof *copies) : NULL;
    int error = copies ? 0 : -ENOMEM;
    *out = copies;
    for (size_t i = 0; i < count && !error; i++)
        error = clone_value(alloc, &values[i], &copies[i], depth);
    return error;
}

static int clone_pairs(const struct alloc *alloc, const struct orr_table *table, struct orr_table *out, unsigned depth)
{
    if (!table->count)
        return 0;
    struct orr_pair *copies = table->count < SIZE_MAX / 2 / sizeof *copies
                                  ? block_new(alloc, table->count * sizeof *copies)
                                  : NULL;
    if (!copies)
        return -ENOMEM;
    out->pairs = copies;
    out->count = table->count;
    int error = 0;
    for (size_t i = 0; i < table->count && !error; i++) {
        error = is_key(&table->pairs[i].key) ? clone_value(alloc, &table->pairs[i].key, &copies[i].key, depth)
                                             : -EINVAL;
        error = error ? error : clone_value(alloc, &table->pairs[i].value, &copies[i].value, depth);
    }
    return error;
}

static int clone_table(const struct alloc *alloc, const struct orr_table *table, struct orr_value *out, unsigned depth)
{
    if ((table->length && !table->items) || (table->count && !table->pairs))
        return -EINVAL;
    if (depth > ORR_VALUE_DEPTH)
        return -ELOOP;
    *out = (struct orr_value){ .type = ORR_TABLE };
    int error = clone_values(alloc, table->items, table->length, &out->table.items, depth);
    out->table.length = out->table.items ? table->length : 0;
    return error ? error : clone_pairs(alloc, table, &out->table, depth);
}

static int clone_string(const struct alloc *alloc, const struct orr_string *string, struct orr_value *out)
{
    if (string->length && !string->bytes)
        return -EINVAL;
    char *copy = string->length < SIZE_MAX / 2 ? block_new(alloc, string->length + 1) : NULL;
    if (!copy)
        return -ENOMEM;
    if (string->length)
        memcpy(copy, string->bytes, string->length);
    *out = (struct orr_value){ .type = ORR_STRING, .string = { copy, string->length } };
    return 0;
}

static int clone_value(const struct alloc *alloc, const struct orr_value *value, struct orr_value *out, unsigned depth)
{
    switch (value->type) {
    case ORR_NIL:
    case ORR_BOOLEAN:
    case ORR_INTEGER:
    case ORR_NUMBER:
        *out = *value;
        return 0;
    case ORR_STRING:
        return clone_string(alloc, &value->string, out);
    case ORR_TABLE:
        return clone_table(alloc, &value->table, out, depth + 1);
    default:
        return -EINVAL;
    }
}

int value_clone(const struct alloc *alloc, const struct orr_value *value, struct orr_value *out)
{
    *out = (struct orr_value){ .type = ORR_NIL };
    int error = clone_value(alloc, value, out, 0);
    if (error)
        orr_values_free(out, 1);
    return error;
}

int value_clone_all(const struct alloc *alloc, const struct orr_value *values, size_t count, struct orr_value **out)
{
    const struct orr_value *clones;
    int error = clone_values(alloc, values, count, &clones, 0);
    if (error && clones) {
        value_clone_free((struct orr_value *)clones, count);
        clones = NULL;
    }
    *out = (struct orr_value *)clones;
    return error;
}

void value_clone_free(struct orr_value *clones, size_t count)
{
    orr_values_free(clones, count);
    block_free(clones);
}

/* --- To Lua ----------------------------------------------------------------------------------- */

static int push_value(struct orr_isolate *iso, lua_State *L, const struct orr_value *value, unsigned depth);

static int size_hint(size_t size)
{
    return size < INT_MAX ? (int)size : INT_MAX;
}

/* Pushes a table.  After an error, parts of it are on the stack, and the caller pops them. */
static int push_table(struct orr_isolate *iso, lua_State *L, const struct orr_table *table, unsigned depth)
{
    if ((table->length && !table->items) || (table->count && !table->pairs))
        return -EINVAL;
    if (depth > ORR_VALUE_DEPTH)
        return -ELOOP;
    lua_createtable(L, size_hint(table->length), size_hint(table->count));
    for (size_t i = 0; i < table->length; i++) {
        int error = push_value(iso, L, &table->items[i], depth);
        if (error)
            return error;
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct orr_pair *pair = &table->pairs[i];
        int error = is_key(&pair->key) ? push_value(iso, L, &pair->key, depth) : -EINVAL;
        if (!error)
            error = push_value(iso, L, &pair->value, depth);
        if (error)
            return error;
        lua_rawset(L, -3);
    }
    return 0;
}

static int push_string(lua_State *L, const struct orr_string *string)
{
    if (string->length && !string->bytes)
        return -EINVAL;
    lua_pushlstring(L, string->length ? string->bytes : "", string->length);
    return 0;
}

static int push_function(struct orr_isolate *iso, lua_State *L, const struct orr_function *function)
{
    if (!function)
        return -EINVAL;
    if (function->iso != iso)
        return -EXDEV;
    lua_rawgeti(L, LUA_REGISTRYINDEX, function->reference);
    return 0;
}

static int push_value(struct orr_isolate *iso, lua_State *L, const struct orr_value *value, unsigned depth)
{
    luaL_checkstack(L, 4, NULL);
    switch (value->type) {
    case ORR_NIL:
        lua_pushnil(L);
        return 0;
    case ORR_BOOLEAN:
        lua_pushboolean(L, value->boolean);
        return 0;
    case ORR_INTEGER:
        lua_pushinteger(L, value->integer);
        return 0;
    case ORR_NUMBER:
        lua_pushnumber(L, value->number);
        return 0;
    case ORR_STRING:
        return push_string(L, &value->string);
    case ORR_TABLE:
        return push_table(iso, L, &value->table, depth + 1);
    case ORR_FUNCTION:
        return push_function(iso, L, value->function);
    default:
        return -EINVAL;
    }
}

int value_push_all(struct orr_isolate *iso, lua_State *L, const struct orr_value *values, size_t count)
{
    int top = lua_gettop(L);
    for (size_t i = 0; i < count; i++) {
        int error = push_value(iso, L, &values[i], 0);
        if (error) {
            lua_settop(L, top);
            return error;
        }
    }
    return 0;
}

/* --- From Lua --------------------------------------------------------------------------------- */

struct copying {
    struct orr_isolate *iso;
    size_t left; /* bytes left for the copies */
    bool borrow;
    size_t count;
    struct orr_value *values;
    int error;
};

static int copy_value(struct copying *copying, lua_State *L, int index, struct orr_value *out, unsigned depth);

/*
 * Allocates a part of a copy: `count` elements of `size` bytes.  The limit counts copies, not
 * originals: a script can put one value into a table many times, and that table into another.
 */
static int take(struct copying *copying, size_t count, size_t size, void *out)
{
    void *content = NULL;
    if (count > copying->left / size)
        return -EFBIG;
    copying->left -= count * size;
    if (count && !(content = block_new(&copying->iso->alloc, count * size)))
        return -ENOMEM;
    memcpy(out, &content, sizeof content);
    return 0;
}

/* Reads a value without allocating.  From here on, every `index` is absolute. */
static void look_at(lua_State *L, int index, struct orr_value *out)
{
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        *out = (struct orr_value){ .type = ORR_NIL };
        break;
    case LUA_TBOOLEAN:
        *out = orr_value_boolean(lua_toboolean(L, index));
        break;
    case LUA_TNUMBER:
        *out = lua_isinteger(L, index) ? orr_value_integer(lua_tointeger(L, index))
                                       : orr_value_number(lua_tonumber(L, index));
        break;
    case LUA_TSTRING:
        out->type = ORR_STRING;
        out->string.bytes = lua_tolstring(L, index, &out->string.length);
        break;
    default:
        *out = (struct orr_value){ .type = ORR_OTHER };
    }
}

static int copy_string(struct copying *copying, lua_State *L, int index, struct orr_value *out)
{
    size_t length;
    const char *bytes = lua_tolstring(L, index, &length);
    char *copy = NULL;
    int error = take(copying, length + 1, 1, &copy);
    if (error)
        return error;
    memcpy(copy, bytes, length);
    *out = (struct orr_value){ .type = ORR_STRING, .string = { copy, length } };
    return 0;
}

/* Sets `out` before anything can raise, so that the caller can free the object after an error. */
static int copy_function(struct copying *copying, lua_State *L, int index, struct orr_value *out)
{
    struct orr_function *function = function_new(copying->iso);
    if (!function)
        return -ENOMEM;
    *out = (struct orr_value){ .type = ORR_FUNCTION, .function = function };
    lua_pushvalue(L, index);
    function->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* Counts the items from 1 on.  Lua's length operator may count beyond a hole in the table. */
static size_t count_items(lua_State *L, int index)
{
    size_t length = 0;
    while (lua_rawgeti(L, index, (lua_Integer)length + 1) != LUA_TNIL) {
        lua_pop(L, 1);
        length++;
    }
    lua_pop(L, 1);
    return length;
}

/* Whether the key at `index` belongs to the pairs, and is not the number of an item. */
static bool is_of_pair(lua_State *L, int index, size_t items)
{
    return !lua_isinteger(L, index) || (lua_Unsigned)lua_tointeger(L, index) - 1 >= items;
}

static size_t count_pairs(lua_State *L, int index, size_t items)
{
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        count += is_of_pair(L, lua_gettop(L) - 1, items);
    return count;
}

static int copy_items(struct copying *copying, lua_State *L, int index, struct orr_table *table, unsigned depth)
{
    size_t length = count_items(L, index);
    struct orr_value *items = NULL;
    int error = take(copying, length, sizeof *items, &items);
    if (error)
        return error;
    table->items = items;
    table->length = length;
    for (size_t i = 0; i < length && !error; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        error = copy_value(copying, L, lua_gettop(L), &items[i], depth);
        lua_pop(L, 1);
    }
    return error;
}

static int copy_pairs(struct copying *copying, lua_State *L, int index, struct orr_table *table, unsigned depth)
{
    size_t count = count_pairs(L, index, table->length);
    struct orr_pair *pairs = NULL;
    int error = take(copying, count, sizeof *pairs, &pairs);
    if (error)
        return error;
    table->pairs = pairs;
    table->count = count;
    struct orr_pair *pair = pairs;
    lua_pushnil(L);
    while (pair < pairs + count && lua_next(L, index)) {
        int key = lua_gettop(L) - 1;
        if (is_of_pair(L, key, table->length)) {
            error = copy_value(copying, L, key, &pair->key, depth);
            error = error ? error : copy_value(copying, L, key + 1, &pair->value, depth);
            if (error)
                return error;
            pair++;
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return 0;
}

static int copy_table(struct copying *copying, lua_State *L, int index, struct orr_value *out, unsigned depth)
{
    if (depth > ORR_VALUE_DEPTH)
        return -ELOOP;
    *out = (struct orr_value){ .type = ORR_TABLE };
    int error = copy_items(copying, L, index, &out->table, depth);
    return error ? error : copy_pairs(copying, L, index, &out->table, depth);
}

static int copy_value(struct copying *copying, lua_State *L, int index, struct orr_value *out, unsigned depth)
{
    luaL_checkstack(L, 4, NULL);
    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        if (copying->borrow && depth == 0)
            break;
        return copy_string(copying, L, index, out);
    case LUA_TTABLE:
        return copy_table(copying, L, index, out, depth + 1);
    case LUA_TFUNCTION:
        return copy_function(copying, L, index, out);
    default:
        break;
    }
    look_at(L, index, out);
    return 0;
}

/* [copying] [values...]: copies the values. */
static int copy_protected(lua_State *L)
{
    struct copying *copying = lua_touserdata(L, 1);
    for (size_t i = 0; i < copying->count && !copying->error; i++)
        copying->error = copy_value(copying, L, (int)i + 2, &copying->values[i], 0);
    return 0;
}

/* Whether a value can be read without allocating, and so without protected mode. */
static bool is_simple(lua_State *L, int index, bool borrow)
{
    int type = lua_type(L, index);
    return type != LUA_TTABLE && type != LUA_TFUNCTION && (type != LUA_TSTRING || borrow);
}

int value_copy_all(struct orr_isolate *iso, lua_State *L, int first, size_t count, bool borrow,
                   struct orr_value *values)
{
    size_t simple = 0;
    memset(values, 0, count * sizeof *values);
    for (; simple < count && is_simple(L, first + (int)simple, borrow); simple++)
        look_at(L, first + (int)simple, &values[simple]);
    if (simple == count)
        return 0;
    if (count > INT_MAX - 8 || !lua_checkstack(L, (int)count + 3))
        return -ENOMEM;
    size_t longest = iso->limits.longest_string;
    struct copying copying = {
        .iso = iso, .left = longest ? longest : SIZE_MAX, .borrow = borrow, .count = count, .values = values
    };
    lua_pushcfunction(L, copy_protected);
    lua_pushlightuserdata(L, &copying);
    for (size_t i = 0; i < count; i++)
        lua_pushvalue(L, first + (int)i);
    if (lua_pcall(L, (int)count + 1, 0, 0) != LUA_OK) {
        lua_pop(L, 1);
        copying.error = -ENOMEM;
    }
    if (!copying.error)
        return 0;
    if (borrow)
        value_return_all(values, count);
    else
        orr_values_free(values, count);
    memset(values, 0, count * sizeof *values);
    return copying.error;
}

/* --- The host's API --------------------------------------------------------------------------- */

struct orr_isolate *value_visit(lua_State *L, int *error)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    *error = iso && !iso->closing ? isolate_visit(iso) : -EINVAL;
    return *error ? NULL : iso;
}

struct pushing {
    struct orr_isolate *iso;
    const struct orr_value *value;
    int error;
};

static int push_protected(lua_State *L)
{
    struct pushing *pushing = lua_touserdata(L, 1);
    pushing->error = value_push_all(pushing->iso, L, pushing->value, 1);
    return !pushing->error;
}

/* Pushes one value.  On an error, pushes nothing and returns a negative errno.  Never raises. */
static int push(struct orr_isolate *iso, lua_State *L, const struct orr_value *value)
{
    struct pushing pushing = { .iso = iso, .value = value };
    if (!lua_checkstack(L, 2))
        return -ENOMEM;
    lua_pushcfunction(L, push_protected);
    lua_pushlightuserdata(L, &pushing);
    if (lua_pcall(L, 1, LUA_MULTRET, 0) == LUA_OK)
        return pushing.error;
    lua_pop(L, 1);
    return -ENOMEM;
}

int orr_lua_push_value(lua_State *L, const struct orr_value *value)
{
    int error;
    struct orr_isolate *iso = value ? value_visit(L, &error) : NULL;
    if (!iso)
        return value ? error : -EINVAL;
    error = push(iso, L, value);
    isolate_leave(iso);
    return error;
}

int orr_lua_read_value(lua_State *L, int index, struct orr_value *value)
{
    if (!L || !value || !isolate_find(L) || lua_type(L, index) == LUA_TNONE)
        return -EINVAL;
    if (!is_simple(L, index, true))
        return -ENOTSUP;
    look_at(L, index, value);
    return 0;
}

int orr_lua_copy_value(lua_State *L, int index, struct orr_value *value)
{
    if (!value)
        return -EINVAL;
    *value = (struct orr_value){ .type = ORR_NIL };
    int error;
    struct orr_isolate *iso = value_visit(L, &error);
    if (!iso)
        return error;
    error = lua_type(L, index) == LUA_TNONE ? -EINVAL : value_copy_all(iso, L, lua_absindex(L, index), 1, false, value);
    isolate_leave(iso);
    return error;
}

int orr_lua_pop_value(lua_State *L, struct orr_value *value)
{
    struct orr_value unwanted;
    int error;
    value = value ? value : &unwanted;
    *value = (struct orr_value){ .type = ORR_NIL };
    struct orr_isolate *iso = value_visit(L, &error);
    if (!iso)
        return error;
    error = lua_gettop(L) ? 0 : -EINVAL;
    if (!error && value != &unwanted)
        error = value_copy_all(iso, L, lua_gettop(L), 1, false, value);
    if (lua_gettop(L))
        lua_pop(L, 1);
    isolate_leave(iso);
    return error;
}

int orr_events_emit_value(lua_State *L, const char *name, const struct orr_value *data)
{
    static const struct orr_value nil;
    int error;
    struct orr_isolate *iso = value_visit(L, &error);
    if (!iso)
        return error;
    int top = lua_gettop(L);
    error = push(iso, L, data ? data : &nil);
    if (!error)
        error = orr_events_emit(L, name);
    lua_settop(L, top);
    isolate_leave(iso);
    return error;
}
