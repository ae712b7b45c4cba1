#include "cli/warnings.h"

#include <lua.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A program has one isolate. */
static bool on, in_the_middle; /* in a message that comes in pieces */

static void warn(void *data, const char *text, int to_be_continued)
{
    (void)data;
    if (!in_the_middle && !to_be_continued && *text == '@') {
        if (!strcmp(text, "@on") || !strcmp(text, "@off"))
            on = !strcmp(text, "@on");
        return;
    }
    if (on)
        fprintf(stderr, "%s%s%s", in_the_middle ? "" : "Lua warning: ", text, to_be_continued ? "" : "\n");
    in_the_middle = to_be_continued;
}

void warnings_open(lua_State *L)
{
    lua_setwarnf(L, warn, NULL);
}
