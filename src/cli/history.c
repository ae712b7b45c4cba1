#include "cli/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Creates all folders on the path of a file, as far as possible. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

char *history_path(void)
{
    const char *own = getenv("ORRERY_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = -1;
    if (own)
        return *own ? strdup(own) : NULL;
    if (state && *state == '/')
        length = asprintf(&path, "%s/orrery/history", state);
    else if (home && *home == '/')
        length = asprintf(&path, "%s/.local/state/orrery/history", home);
    if (length < 0)
        return NULL;
    make_folders(path);
    return path;
}
