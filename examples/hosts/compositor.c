/*
 * A Wayland compositor with a script for its keys and windows, and how regular its frames are while that script runs: first without
 * any, then with each of those given, for so many seconds.
 *
 *     compositor SECONDS [SCRIPT...]
 *
 * One line a figure, as the benchmarks have: "name value unit ratio peer"; the peer is the compositor without a script.
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

enum { KEY_EVERY_MS = 50 }; /* somebody types */

struct compositor {
    struct guest guest;
    struct desktop *desktop;
    struct wl_event_source *keys, *end;
    struct frames frames;
    bool measured, interrupted; /* this script's time is over; all is */
    bool failed;
};

/* --- What the desktop tells ----------------------------------------------------------------------------------- */

static void on_frame(void *data)
{
    struct compositor *compositor = data;
    frames_add(&compositor->frames, orr_runtime_now(compositor->guest.rt));
}

static void on_key(void *data, const char *name, bool pressed)
{
    struct compositor *compositor = data;
    struct guest_field fields[] = { { .key = "name", .text = name },
                                    { .key = "state", .text = pressed ? "down" : "up" } };
    guest_emit(&compositor->guest, "key", fields, 2);
}

static void on_window(void *data, const char *title, bool opened)
{
    struct compositor *compositor = data;
    struct guest_field fields[] = { { .key = "title", .text = title },
                                    { .key = "change", .text = opened ? "opened" : "closed" } };
    guest_emit(&compositor->guest, "window", fields, 2);
}

/* --- What the loop calls -------------------------------------------------------------------------------------- */

/*
 * A turn ends before the next frame is due: a compositor knows when that is, and the library keeps a turn to its budget, whatever the
 * script does.  When the frame is late all the same, turns are as short as can be until it is drawn.
 */
static uint64_t turn_budget(const struct compositor *compositor)
{
    uint64_t since = orr_runtime_now(compositor->guest.rt) - compositor->frames.last;
    uint64_t left = since < TICK_MS * MS ? TICK_MS * MS - since : 0;
    if (since > 10 * MS * TICK_MS)
        return TURN_NS; /* nothing is drawn: the output is off */
    return left < TURN_NS ? left : TURN_NS;
}

static int on_runtime(int fd, uint32_t mask, void *data)
{
    struct compositor *compositor = data;
    (void)fd, (void)mask;
    compositor->failed = orr_runtime_turn(compositor->guest.rt, turn_budget(compositor)) < 0;
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
    struct compositor *compositor = data;
    compositor->measured = true;
    return 0;
}

static int on_signal(int number, void *data)
{
    struct compositor *compositor = data;
    (void)number;
    compositor->measured = compositor->interrupted = true;
    return 0;
}

/* --- The script ----------------------------------------------------------------------------------------------- */

static int set_background(lua_State *L)
{
    struct compositor *compositor = lua_touserdata(L, lua_upvalueindex(1));
    desktop_set_background(compositor->desktop, (float)luaL_checknumber(L, 1), (float)luaL_checknumber(L, 2),
                           (float)luaL_checknumber(L, 3));
    return 0;
}

/* Functions of the host's go where the API is mounted. */
static void prepare(void *data, lua_State *L)
{
    lua_getglobal(L, "compositor");
    lua_pushlightuserdata(L, data);
    lua_pushcclosure(L, set_background, 1);
    lua_setfield(L, -2, "set_background");
    lua_pop(L, 1);
}

/* --- Measuring ------------------------------------------------------------------------------------------------ */

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
        fd < 0 ? NULL : wl_event_loop_add_fd(loop, fd, WL_EVENT_READABLE, on_runtime, compositor),
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
            wl_event_source_remove(sources[i]); /* before the runtime, whose descriptor one watches */
    return error;
}

int main(int argc, char **argv)
{
    static struct compositor compositor = { .guest = { .quiet = true, .forgive = true } }; /* it may loop to the end */
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
    if (guest_close(&compositor.guest))
        error = -1;
    desktop_close(compositor.desktop);
    return error ? 1 : 0;
}
