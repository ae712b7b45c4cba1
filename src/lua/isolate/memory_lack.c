#include "lua/isolate/memory_lack.h"

#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/account.h"

#include <stdio.h>
#include <string.h>

/* Writes the innermost place in a Lua function. */
static void find_place(lua_State *L, char *text, size_t size)
{
    enum { LEVELS = 16 };
    lua_Debug at;
    *text = '\0';
    for (int level = 0; level < LEVELS && lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "Sl", &at);
        if (at.currentline > 0 && strncmp(at.source, "=orrery/", strlen("=orrery/")) != 0) {
            snprintf(text, size, "%s:%d", at.short_src, at.currentline);
            return;
        }
    }
}

void memory_lack_note(struct orr_isolate *iso, lua_State *L, enum lack why, size_t asked)
{
    struct memory_lack *self = &iso->memory_lack;
    self->why = (uint8_t)why;
    self->asked = asked;
    self->used = account_used(&iso->account);
    find_place(L, self->place, sizeof self->place);
}

void memory_lack_describe(struct orr_isolate *iso, char *text, size_t size)
{
    struct memory_lack *self = &iso->memory_lack;
    char asked[TEXT_SIZE_ROOM], used[TEXT_SIZE_ROOM], limit[TEXT_SIZE_ROOM], reason[3 * TEXT_SIZE_ROOM + 80] = "";
    text_size(asked, self->asked);
    text_size(used, self->used);
    text_size(limit, self->why == LACK_BY_STRING ? iso->limits.longest_string : iso->limits.memory);
    if (self->why == LACK_BY_STRING)
        snprintf(reason, sizeof reason, ": a string of %s is beyond the limit of %s", asked, limit);
    else if (self->why == LACK_BY_SYSTEM)
        snprintf(reason, sizeof reason, ": the system has refused %s; Lua uses %s", asked, used);
    else if (self->why == LACK_BY_LIMIT && self->asked)
        snprintf(reason, sizeof reason, ": Lua uses %s and asks for %s more; the limit is %s", used, asked, limit);
    else if (self->why == LACK_BY_LIMIT)
        snprintf(reason, sizeof reason, ": Lua uses %s; the limit is %s", used, limit);
    snprintf(text, size, "not enough memory%s%s%s", reason, *reason && *self->place ? "\nit was at " : "",
             *reason ? self->place : "");
    self->why = LACK_NONE;
}
