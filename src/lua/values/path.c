#include "lua/values/path.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    PATH_ENDS = 8,     /* keys shown at each end of a deep path */
    PATH_KEY_MAX = 48, /* bytes shown of a key */
    PATH_TEXT = 64 + (2 * PATH_ENDS + 1) * (PATH_KEY_MAX + 16),
};

struct text {
    char *at;
    size_t left;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    size_t added = (size_t)size < text->left ? (size_t)size : text->left - 1;
    text->at += added;
    text->left -= added;
}

static bool is_identifier(const char *key, size_t size)
{
    static const char *const reserved = " and break do else elseif end false for function goto if in local nil not or "
                                        "repeat return then true until while ";
    char word[16];
    if (!size || size > PATH_KEY_MAX || isdigit((unsigned char)key[0]))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)key[i]) && key[i] != '_')
            return false;
    if (size > sizeof word - 3)
        return true;
    snprintf(word, sizeof word, " %.*s ", (int)size, key);
    return !strstr(reserved, word);
}

static void add_string(struct text *text, const char *key, size_t size)
{
    if (is_identifier(key, size)) {
        add(text, ".%.*s", (int)size, key);
        return;
    }
    add(text, "[\"");
    for (size_t i = 0, used = 0; i < size; i++) {
        unsigned char c = (unsigned char)key[i];
        bool plain = c >= ' ' && c != 127 && c != '"' && c != '\\';
        used += plain ? 1 : 4;
        if (used > PATH_KEY_MAX) {
            add(text, "...");
            break;
        }
        add(text, plain ? "%c" : "\\x%02X", c);
    }
    add(text, "\"]");
}

static void add_key(struct text *text, lua_State *L, int index)
{
    size_t size;
    switch (lua_type(L, index)) {
    case LUA_TSTRING: {
        const char *key = lua_tolstring(L, index, &size);
        add_string(text, key, size);
        break;
    }
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            add(text, "[" LUA_INTEGER_FMT "]", lua_tointeger(L, index));
        else
            add(text, "[" LUA_NUMBER_FMT "]", lua_tonumber(L, index));
        break;
    case LUA_TBOOLEAN:
        add(text, "[%s]", lua_toboolean(L, index) ? "true" : "false");
        break;
    default:
        add(text, "[a %s]", lua_typename(L, lua_type(L, index)));
    }
}

/*
 * Of a deep path only the first and last PATH_ENDS keys are written, of a long key only the
 * beginning.
 */
static void write_path(lua_State *L, const struct path *path, struct text *out)
{
    add(out, "%.32s", path->root);
    if (path->number)
        add(out, "[%d]", path->number);
    for (int i = 0; i < path->depth; i++) {
        if (i == PATH_ENDS && path->depth > 2 * PATH_ENDS) {
            add(out, "...");
            i = path->depth - PATH_ENDS;
        }
        add_key(out, L, path->first_key + 2 * i);
    }
}

struct error {
    const char *path, *reason;
};

static int push_error(lua_State *L)
{
    const struct error *error = lua_touserdata(L, 1);
    lua_pushfstring(L, "%s: %s", error->path, error->reason);
    return 1;
}

void path_push_error(lua_State *L, const struct path *path, const char *reason)
{
    char where[PATH_TEXT];
    struct text out = { .at = where, .left = sizeof where };
    write_path(L, path, &out);
    struct error error = { .path = where, .reason = reason ? reason : "not enough memory" };
    lua_pushcfunction(L, push_error);
    lua_pushlightuserdata(L, &error);
    lua_pcall(L, 1, 1, 0);
}
