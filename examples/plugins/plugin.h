/*
 * A plugin: an untrusted Lua file in its own state, with limits on time, memory and tasks.  It has
 *
 *     host.log(text)        prints a line to the host's output
 *     host.version          a text
 *
 * and Orrery; the host emits the event "tick" regularly.  A plugin that exceeds its limits, or
 * fails, is reported; the others and the host do not notice.  All functions are for the thread that
 * drives the runtime.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <orrery.h>

#include <sys/stat.h>

struct plugin {
    char name[64]; /* the name of the file, without its ending */
    struct orr_script *script;
    struct timespec changed; /* when the file that was loaded had been changed */
    off_t size;
    bool seen; /* in the current scan */
    struct plugin *next;
};

/* Loads a file; returns NULL if that fails, and the log has the reason. */
struct plugin *plugin_load(struct orr_runtime *rt, const char *name, const char *path, const struct stat *file);

/* Loads it again if the file has changed; everything that the plugin has created ends first. */
void plugin_update(struct plugin *plugin, const struct stat *file);

/*
 * Emits an event with a number.  Does nothing if the plugin has no state, because it could not be
 * loaded again.
 */
void plugin_emit(const struct plugin *plugin, const char *event, int64_t number);

/* Ends everything that it has created, with the grace period to clean up. */
void plugin_unload(struct plugin *plugin);

#endif
