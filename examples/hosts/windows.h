/*
 * The windows of clients: adds them to the scene, gives the newest one the keyboard, and reports
 * when one comes or goes.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#include "desktop.h"

#include <wlr/types/wlr_scene.h>
#include <wlr/types/wlr_seat.h>

struct windows {
    struct wlr_scene *scene;
    struct wlr_seat *seat;
    const struct desktop_listener *listener;
    struct wl_listener new_surface;
};

/* Ends with the display.  Its arguments must live as long. */
bool windows_open(struct windows *windows, struct wl_display *display, struct wlr_scene *scene, struct wlr_seat *seat,
                  const struct desktop_listener *listener);

#endif
