#include "desktop.h"

#include "windows.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <wlr/backend/headless.h>
#include <wlr/interfaces/wlr_keyboard.h>
#include <wlr/render/allocator.h>
#include <wlr/render/pixman.h>
#include <wlr/render/wlr_renderer.h>
#include <wlr/types/wlr_compositor.h>
#include <wlr/types/wlr_output_layout.h>
#include <wlr/types/wlr_scene.h>
#include <wlr/types/wlr_seat.h>
#include <wlr/util/log.h>
#include <xkbcommon/xkbcommon.h>

enum { WIDTH = 1280, HEIGHT = 720, BAR = 40 };

struct desktop {
    struct desktop_listener listener;
    struct wl_display *display;
    struct wlr_backend *backend;
    struct wlr_renderer *renderer;
    struct wlr_allocator *allocator;
    struct wlr_output_layout *layout;
    struct wlr_scene *scene;
    struct wlr_scene_output *scene_output;
    struct wlr_scene_rect *background, *bar;
    struct wlr_seat *seat;
    struct wlr_keyboard *keyboard;
    struct windows windows;
    struct wl_listener frame, key;
    const char *socket;
    int frames;
};

static uint32_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/* --- Drawing ---------------------------------------------------------------------------------- */

static void on_frame(struct wl_listener *listener, void *data)
{
    struct desktop *desktop = wl_container_of(listener, desktop, frame);
    (void)data;
    desktop->listener.frame(desktop->listener.data);
    /* A moving bar, so that there is something to draw in every frame. */
    wlr_scene_node_set_position(&desktop->bar->node, desktop->frames++ % (WIDTH - BAR), HEIGHT - BAR);
    wlr_scene_output_commit(desktop->scene_output);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    wlr_scene_output_send_frame_done(desktop->scene_output, &now);
}

static bool open_output(struct desktop *desktop)
{
    struct wlr_output *output = wlr_headless_add_output(desktop->backend, WIDTH, HEIGHT);
    if (!output || !wlr_output_init_render(output, desktop->allocator, desktop->renderer))
        return false;
    wlr_output_layout_add_auto(desktop->layout, output);
    desktop->scene_output = wlr_scene_get_scene_output(desktop->scene, output);
    desktop->background = wlr_scene_rect_create(&desktop->scene->node, WIDTH, HEIGHT, (float[]){ 0.1f, 0.1f, 0.5f, 1 });
    desktop->bar = wlr_scene_rect_create(&desktop->scene->node, BAR, BAR, (float[]){ 1, 1, 1, 1 });
    if (!desktop->scene_output || !desktop->background || !desktop->bar)
        return false;
    desktop->frame.notify = on_frame;
    wl_signal_add(&output->events.frame, &desktop->frame);
    return true;
}

void desktop_set_background(struct desktop *desktop, float red, float green, float blue)
{
    wlr_scene_rect_set_color(desktop->background, (float[]){ red, green, blue, 1 });
}

/* --- Keys ------------------------------------------------------------------------------------- */

static void on_key(struct wl_listener *listener, void *data)
{
    struct desktop *desktop = wl_container_of(listener, desktop, key);
    const struct wlr_event_keyboard_key *key = data;
    char name[64] = "";
    xkb_keysym_get_name(xkb_state_key_get_one_sym(desktop->keyboard->xkb_state, key->keycode + 8), name, sizeof name);
    desktop->listener.key(desktop->listener.data, name, key->state == WL_KEYBOARD_KEY_STATE_PRESSED);
    wlr_seat_keyboard_notify_key(desktop->seat, key->time_msec, key->keycode, key->state);
}

void desktop_press(struct desktop *desktop, uint32_t key, bool pressed)
{
    struct wlr_event_keyboard_key event = {
        .time_msec = now_ms(),
        .keycode = key,
        .update_state = true,
        .state = pressed ? WL_KEYBOARD_KEY_STATE_PRESSED : WL_KEYBOARD_KEY_STATE_RELEASED,
    };
    wlr_keyboard_notify_key(desktop->keyboard, &event);
}

static bool open_keyboard(struct desktop *desktop)
{
    struct wlr_input_device *device = wlr_headless_add_input_device(desktop->backend, WLR_INPUT_DEVICE_KEYBOARD);
    struct xkb_context *context = xkb_context_new(XKB_CONTEXT_NO_FLAGS);
    struct xkb_keymap *keymap = context ? xkb_keymap_new_from_names(context, NULL, XKB_KEYMAP_COMPILE_NO_FLAGS) : NULL;
    bool fine = device && keymap && wlr_keyboard_set_keymap(device->keyboard, keymap);
    xkb_keymap_unref(keymap);
    xkb_context_unref(context);
    if (!fine)
        return false;
    desktop->keyboard = device->keyboard;
    desktop->key.notify = on_key;
    wl_signal_add(&desktop->keyboard->events.key, &desktop->key);
    wlr_seat_set_capabilities(desktop->seat, WL_SEAT_CAPABILITY_KEYBOARD);
    wlr_seat_set_keyboard(desktop->seat, device);
    return true;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

/* Creates what clients see. */
static bool open_globals(struct desktop *desktop)
{
    desktop->layout = wlr_output_layout_create();
    desktop->scene = wlr_scene_create();
    desktop->seat = wlr_seat_create(desktop->display, "seat0");
    return desktop->layout && desktop->scene && desktop->seat &&
           wlr_compositor_create(desktop->display, desktop->renderer) &&
           wlr_scene_attach_output_layout(desktop->scene, desktop->layout) &&
           windows_open(&desktop->windows, desktop->display, desktop->scene, desktop->seat, &desktop->listener);
}

struct desktop *desktop_open(const struct desktop_listener *listener)
{
    struct desktop *desktop = calloc(1, sizeof *desktop);
    if (!desktop)
        return NULL;
    desktop->listener = *listener;
    wlr_log_init(WLR_ERROR, NULL);
    if ((desktop->display = wl_display_create()) &&
        (desktop->backend = wlr_headless_backend_create(desktop->display)) &&
        (desktop->renderer = wlr_pixman_renderer_create()) && /* in software: no GPU is needed */
        (desktop->allocator = wlr_allocator_autocreate(desktop->backend, desktop->renderer)) &&
        wlr_renderer_init_wl_display(desktop->renderer, desktop->display) && open_globals(desktop) &&
        wlr_backend_start(desktop->backend) && open_output(desktop) && open_keyboard(desktop)) {
        desktop->socket = wl_display_add_socket_auto(desktop->display);
        return desktop;
    }
    desktop_close(desktop);
    return NULL;
}

/* Destroys users before what they use. */
void desktop_close(struct desktop *desktop)
{
    if (!desktop)
        return;
    if (desktop->display)
        wl_display_destroy_clients(desktop->display);
    if (desktop->layout)
        wlr_output_layout_destroy(desktop->layout);
    if (desktop->scene)
        wlr_scene_node_destroy(&desktop->scene->node);
    if (desktop->backend)
        wlr_backend_destroy(desktop->backend); /* also destroys the output and the keyboard */
    if (desktop->allocator)
        wlr_allocator_destroy(desktop->allocator);
    if (desktop->renderer)
        wlr_renderer_destroy(desktop->renderer);
    if (desktop->display)
        wl_display_destroy(desktop->display); /* also destroys the seat and the other globals */
    free(desktop);
}

struct wl_event_loop *desktop_loop(struct desktop *desktop)
{
    return wl_display_get_event_loop(desktop->display);
}

const char *desktop_socket(const struct desktop *desktop)
{
    return desktop->socket;
}

int desktop_dispatch(struct desktop *desktop)
{
    wl_display_flush_clients(desktop->display);
    if (wl_event_loop_dispatch(desktop_loop(desktop), -1) < 0 && errno != EINTR)
        return -errno;
    return 0;
}
