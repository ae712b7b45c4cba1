/*
 * A Wayland compositor with a script for its keys and windows.  It measures how regular its frames
 * are: first without a script, then with each given script, for the given number of seconds.
 *
 *     compositor SECONDS [SCRIPT...]
 *
 * It prints one line for each figure, as the benchmarks do: "name value unit ratio peer".  The peer
 * is the compositor without a script.
 */
#include "desktop.h"
#include "frames.h"
#include "guest.h"

#include <lauxlib.h>

#include <linux/input-event-codes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_NS (8 * MS) /* of each frame, for scripts */

enum { KEY_EVERY_MS = 50 }; /* how often a key is pressed */

struct compositor {
    struct guest guest;
    struct desktop *desktop;
    struct wl_event_source *runtime, *keys, *end;
    uint64_t spent; /* on scripts, since the last frame */
    struct frames frames;
    bool measured, interrupted; /* this script's time is over; the whole run is */
    bool failed;
};

/* --- Called by the desktop -------------------------------------------------------------------- */

static void on_frame(void *data)
{
    struct compositor *compositor = data;
    frames_add(&compositor->frames, orr_runtime_now(compositor->guest.rt));
    compositor->spent = 0;
    wl_event_source_fd_update(compositor->runtime, WL_EVENT_READABLE);
}

static void on_key(void *data, const char *name, bool pressed)
{
    struct orr_pair fields[] = { { orr_value_string("name"), orr_value_string(name) },
                                 { orr_value_string("pressed"), orr_value_boolean(pressed) } };
    guest_emit(&((struct compositor *)data)->guest, "key", fields, 2);
}

static void on_window(void *data, const char *title, bool opened)
{
    struct orr_pair fields[] = { { orr_value_string("title"), orr_value_string(title) },
                                 { orr_value_string("change"), orr_value_string(opened ? "opened" : "closed") } };
    guest_emit(&((struct compositor *)data)->guest, "window", fields, 2);
}

/* --- Called by the loop ----------------------------------------------------------------------- */

/*
 * A turn ends before the next frame is due: a compositor knows when that is, and the library keeps
 * a turn within its budget, whatever the script does.  Scripts have only a part of each frame.  If
 * a process never sleeps, the kernel makes it wait when others want its core.  This one sleeps for
 * the rest of the frame, and so gets the core at once when its time comes.
 */
static uint64_t turn_budget(const struct compositor *compositor, uint64_t now)
{
    uint64_t since = now - compositor->frames.last;
    uint64_t left = since < TICK_MS * MS ? TICK_MS * MS - since : 0;
    uint64_t share = compositor->spent < SHARE_NS ? SHARE_NS - compositor->spent : 0;
    uint64_t budget = share < TURN_NS ? share : TURN_NS;
    return left < budget ? left : budget;
}

static int on_runtime(int fd, uint32_t mask, void *data)
{
    struct compositor *compositor = data;
    uint64_t begin = orr_runtime_now(compositor->guest.rt);
    (void)fd, (void)mask;
    compositor->failed = orr_runtime_turn(compositor->guest.rt, turn_budget(compositor, begin)) < 0;
    compositor->spent += orr_runtime_now(compositor->guest.rt) - begin;
    if (compositor->spent >= SHARE_NS)
        wl_event_source_fd_update(compositor->runtime, 0); /* until the next frame */
    return 0;
}

static int on_keys_due(void *data)
{
    struct compositor *compositor = data;
    desktop_press(compositor->desktop, KEY_A, true);
    desktop_press(compositor->desktop, KEY_A, false);
    wl_event_source_timer_update(compositor->keys, KEY_EVERY_MS);
    return 0;
}

static int on_end(void *data)
{
    ((struct compositor *)data)->measured = true;
    return 0;
}

static int on_signal(int number, void *data)
{
    struct compositor *compositor = data;
    (void)number;
    compositor->measured = compositor->interrupted = true;
    return 0;
}

/* --- The script ------------------------------------------------------------------------------- */

static int set_background(lua_State *L)
{
    struct compositor *compositor = lua_touserdata(L, lua_upvalueindex(1));
    desktop_set_background(compositor->desktop, (float)luaL_checknumber(L, 1), (float)luaL_checknumber(L, 2),
                           (float)luaL_checknumber(L, 3));
    return 0;
}

/* Adds functions of the host where the API is mounted. */
static void prepare(void *data, lua_State *L)
{
    lua_getglobal(L, "compositor");
    lua_pushlightuserdata(L, data);
    lua_pushcclosure(L, set_background, 1);
    lua_setfield(L, -2, "set_background");
    lua_pop(L, 1);
}

/* --- Measuring -------------------------------------------------------------------------------- */

/* `path` NULL: no script. */
static int measure(struct compositor *compositor, int seconds, const char *path, struct frames_figures *bare)
{
    int error = path ? guest_load(&compositor->guest, "compositor", path, prepare, compositor) : 0;
    compositor->guest.timeouts = 0;
    compositor->measured = false;
    compositor->frames.last = compositor->frames.count = 0;
    wl_event_source_timer_update(compositor->keys, KEY_EVERY_MS);
    wl_event_source_timer_update(compositor->end, seconds * 1000);
    while (!error && !compositor->failed && !compositor->measured)
        error = desktop_dispatch(compositor->desktop);
    if (error || compositor->failed)
        return -1;
    char mode[40] = "no-script";
    if (path)
        snprintf(mode, sizeof mode, "%.*s", (int)strcspn(basename(path), "."), basename(path));
    struct frames_figures figures = frames_figures(&compositor->frames);
    frames_print(mode, &figures, path ? bare : NULL);
    frames_line(mode, "timeouts", compositor->guest.timeouts, "times", 0);
    fflush(stdout);
    if (!path)
        *bare = figures;
    guest_unload(&compositor->guest); /* the desktop goes on, and could load another */
    return 0;
}

static int run(struct compositor *compositor, int seconds, char **scripts)
{
    struct wl_event_loop *loop = desktop_loop(compositor->desktop);
    int fd = orr_runtime_fd(compositor->guest.rt);
    struct wl_event_source *sources[] = {
        compositor->runtime = wl_event_loop_add_fd(loop, fd, WL_EVENT_READABLE, on_runtime, compositor),
        wl_event_loop_add_signal(loop, SIGINT, on_signal, compositor),
        wl_event_loop_add_signal(loop, SIGTERM, on_signal, compositor),
        compositor->keys = wl_event_loop_add_timer(loop, on_keys_due, compositor),
        compositor->end = wl_event_loop_add_timer(loop, on_end, compositor),
    };
    int count = sizeof sources / sizeof sources[0], error = 0;
    for (int i = 0; i < count; i++)
        error = sources[i] ? error : -1;
    struct frames_figures bare = { 0 };
    if (!error)
        error = measure(compositor, seconds, NULL, &bare);
    for (; !error && *scripts && !compositor->interrupted; scripts++)
        error = measure(compositor, seconds, *scripts, &bare);
    for (int i = 0; i < count; i++)
        if (sources[i])
            /* Before the runtime, whose descriptor one of them watches. */
            wl_event_source_remove(sources[i]);
    return error;
}

int main(int argc, char **argv)
{
    /* The script may loop until the end. */
    static struct compositor compositor = { .guest = { .quiet = true, .forgive = true } };
    struct desktop_listener listener = { .frame = on_frame, .key = on_key, .window = on_window, .data = &compositor };
    int seconds = argc > 1 ? atoi(argv[1]) : 0;
    if (seconds <= 0)
        return fprintf(stderr, "usage: compositor SECONDS [SCRIPT...]\n"), 2;
    if (guest_open(&compositor.guest))
        return 1;
    compositor.desktop = desktop_open(&listener);
    if (compositor.desktop && desktop_socket(compositor.desktop))
        fprintf(stderr, "compositor: WAYLAND_DISPLAY=%s\n", desktop_socket(compositor.desktop));
    int error = compositor.desktop ? run(&compositor, seconds, argv + 2) : -1;
    error |= guest_close(&compositor.guest);
    desktop_close(compositor.desktop);
    return error ? 1 : 0;
}
