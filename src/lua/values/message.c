#include "lua/values/message.h"

#include "lua/values/transit.h"

#include <errno.h>
#include <string.h>

enum { CAPACITY_MIN = 256, LIST_MIN = 4 };

void message_init(struct message *m, const struct alloc *alloc)
{
    *m = (struct message){ .alloc = *alloc };
}

void message_charge_to(struct message *m, struct transit *transit)
{
    m->transit = transit_ref(transit);
}

void message_free(struct message *m)
{
    if (m->transit) {
        transit_discharge(m->transit, m->charged);
        transit_unref(m->transit);
    }
    for (unsigned i = 0; i < m->attachment_count; i++)
        m->attachments[i]->unref(m->attachments[i]);
    for (unsigned i = 0; i < m->segment_count; i++)
        alloc_free(&m->alloc, m->segments[i].bytes, m->segments[i].size);
    alloc_free(&m->alloc, m->attachments, m->attachment_capacity * sizeof(struct attachment *));
    alloc_free(&m->alloc, m->segments, m->segment_capacity * sizeof *m->segments);
    alloc_free(&m->alloc, m->bytes, m->capacity);
    *m = (struct message){ .alloc = m->alloc, .flat = m->flat };
}

size_t message_size(const struct message *m)
{
    size_t size = m->size;
    for (unsigned i = 0; i < m->segment_count; i++)
        size += m->segments[i].size;
    return size;
}

int message_grow(struct message *m, size_t more)
{
    if (more > UINT32_MAX || m->size + more > UINT32_MAX)
        return -E2BIG;
    size_t capacity = m->capacity ? m->capacity : CAPACITY_MIN;
    while (capacity < m->size + more)
        capacity *= 2;
    unsigned char *bytes = alloc_resize(&m->alloc, m->bytes, m->capacity, capacity);
    if (!bytes)
        return -ENOMEM;
    m->bytes = bytes;
    m->capacity = capacity;
    return 0;
}

/* Room for one more in a list, which may move; NULL if there is none. */
static void *list_grow(const struct alloc *alloc, void *list, unsigned count, unsigned *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    unsigned more = *capacity ? *capacity * 2 : LIST_MIN;
    void *grown = more > *capacity ? alloc_resize(alloc, list, *capacity * size, more * size) : NULL;
    if (grown)
        *capacity = more;
    return grown;
}

int message_add_segment(struct message *m, const char *bytes, size_t size)
{
    struct segment *list = list_grow(&m->alloc, m->segments, m->segment_count, &m->segment_capacity,
                                     sizeof *m->segments);
    if (!list)
        return -ENOMEM;
    m->segments = list;
    char *copy = alloc_new(&m->alloc, size);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, bytes, size);
    list[m->segment_count++] = (struct segment){ .bytes = copy, .size = size };
    return 0;
}

int message_add_attachment(struct message *m, struct attachment *attachment)
{
    struct attachment **list = list_grow(&m->alloc, (void *)m->attachments, m->attachment_count,
                                         &m->attachment_capacity, sizeof(struct attachment *));
    if (!list)
        return -ENOMEM;
    m->attachments = list;
    attachment->ref(attachment);
    list[m->attachment_count++] = attachment;
    return 0;
}

/* --- What metatables say ------------------------------------------------------------------------------------------ */

static const char attachment_key, array_key; /* their addresses are a mark, and a place in the registry */

void attachment_mark(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)&attachment_key);
    lua_rawsetp(L, -2, &attachment_key);
}

struct attachment *attachment_test(lua_State *L, int index)
{
    struct attachment **block = lua_touserdata(L, index);
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return NULL;
    lua_rawgetp(L, -1, &attachment_key);
    bool marked = lua_touserdata(L, -1) == &attachment_key;
    lua_pop(L, 2);
    return marked ? *block : NULL;
}

void values_push_array_mark(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
}

void values_make_array_mark(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable"); /* or one script could change what all arrays do */
    lua_pushliteral(L, "orrery.array");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
}
