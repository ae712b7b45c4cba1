#include "windows.h"

#include <stdlib.h>
#include <wlr/types/wlr_xdg_shell.h>

struct window {
    struct windows *windows;
    struct wlr_xdg_surface *surface;
    struct wl_listener map, unmap, destroy;
};

static void tell(const struct window *window, bool opened)
{
    const char *title = window->surface->toplevel->title;
    const struct desktop_listener *listener = window->windows->listener;
    listener->window(listener->data, title ? title : "", opened);
}

static void on_map(struct wl_listener *listener, void *data)
{
    struct window *window = wl_container_of(listener, window, map);
    struct wlr_seat *seat = window->windows->seat;
    struct wlr_keyboard *keyboard = wlr_seat_get_keyboard(seat);
    (void)data;
    wlr_xdg_toplevel_set_activated(window->surface, true);
    if (keyboard)
        wlr_seat_keyboard_notify_enter(seat, window->surface->surface, keyboard->keycodes, keyboard->num_keycodes,
                                       &keyboard->modifiers);
    tell(window, true);
}

static void on_unmap(struct wl_listener *listener, void *data)
{
    struct window *window = wl_container_of(listener, window, unmap);
    (void)data;
    tell(window, false);
}

static void on_destroy(struct wl_listener *listener, void *data)
{
    struct window *window = wl_container_of(listener, window, destroy);
    (void)data;
    wl_list_remove(&window->map.link);
    wl_list_remove(&window->unmap.link);
    wl_list_remove(&window->destroy.link);
    free(window);
}

static void on_new_surface(struct wl_listener *listener, void *data)
{
    struct windows *windows = wl_container_of(listener, windows, new_surface);
    struct wlr_xdg_surface *surface = data;
    if (surface->role != WLR_XDG_SURFACE_ROLE_TOPLEVEL)
        return;
    struct window *window = calloc(1, sizeof *window);
    if (!window || !wlr_scene_xdg_surface_create(&windows->scene->node, surface)) {
        free(window);
        return;
    }
    *window = (struct window){ .windows = windows, .surface = surface };
    window->map.notify = on_map;
    window->unmap.notify = on_unmap;
    window->destroy.notify = on_destroy;
    wl_signal_add(&surface->events.map, &window->map);
    wl_signal_add(&surface->events.unmap, &window->unmap);
    wl_signal_add(&surface->events.destroy, &window->destroy);
}

bool windows_open(struct windows *windows, struct wl_display *display, struct wlr_scene *scene, struct wlr_seat *seat,
                  const struct desktop_listener *listener)
{
    struct wlr_xdg_shell *shell = wlr_xdg_shell_create(display);
    if (!shell)
        return false;
    *windows = (struct windows){ .scene = scene, .seat = seat, .listener = listener };
    windows->new_surface.notify = on_new_surface;
    wl_signal_add(&shell->events.new_surface, &windows->new_surface);
    return true;
}
