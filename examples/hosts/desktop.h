/*
 * A small Wayland compositor without its loop and its script: a headless output of 60 Hz, drawn in
 * software, a virtual keyboard, and the windows of clients that connect.  It knows nothing of Lua,
 * and calls its owner with the functions below.
 */
#ifndef DESKTOP_H
#define DESKTOP_H

#include <stdbool.h>
#include <stdint.h>
#include <wayland-server-core.h>

struct desktop;

struct desktop_listener {
    void (*frame)(void *data); /* the output must be drawn; it is drawn when this returns */
    void (*key)(void *data, const char *name, bool pressed);
    void (*window)(void *data, const char *title, bool opened);
    void *data;
};

/* Returns NULL if the machine lacks something; wlroots has printed what. */
struct desktop *desktop_open(const struct desktop_listener *listener);
void desktop_close(struct desktop *desktop);

/* For the owner's descriptors and timers. */
struct wl_event_loop *desktop_loop(struct desktop *desktop);

/* Waits for events and handles them.  Returns 0 or a negative errno. */
int desktop_dispatch(struct desktop *desktop);

/* Returns the socket for clients; NULL without XDG_RUNTIME_DIR, and then no client can connect. */
const char *desktop_socket(const struct desktop *desktop);

/* Presses or releases a key, by its number in <linux/input-event-codes.h>. */
void desktop_press(struct desktop *desktop, uint32_t key, bool pressed);

void desktop_set_background(struct desktop *desktop, float red, float green, float blue);

#endif
