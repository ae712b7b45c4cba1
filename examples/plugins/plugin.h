/*
 * A plugin: a file of Lua in a state of its own, which nobody trusts, with limits on time, memory and tasks.  It sees
 *
 *     host.log(text)        a line of the host's output
 *     host.version          a text
 *
 * and Orrery; the host emits the event "tick" once in a while.  A plugin that is out of its limits, or fails, is reported; the others
 * and the host do not notice.  All calls are for the thread that drives the runtime.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <orrery.h>

#include <sys/stat.h>

struct plugin {
    char name[64]; /* of the file, without its ending */
    struct orr_script *script;
    struct timespec changed; /* the file as it was when it was loaded */
    off_t size;
    bool seen; /* in the scan that is under way */
    struct plugin *next;
};

/* Loads a file; NULL if that is not possible, and the log has said why. */
struct plugin *plugin_load(struct orr_runtime *rt, const char *name, const char *path, const struct stat *file);

/* Loads it again if the file is another than it was: all that the plugin has made ends first. */
void plugin_update(struct plugin *plugin, const struct stat *file);

/* An event with a number; nothing if it is without a state, because it could not be loaded again. */
void plugin_emit(const struct plugin *plugin, const char *event, int64_t number);

/* All that it has made ends, and has the grace period to clean up. */
void plugin_unload(struct plugin *plugin);

#endif
