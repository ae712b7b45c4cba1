/*
 * A client for the compositor: a grey window that comes and goes, until the compositor ends.
 *
 *     WAYLAND_DISPLAY=... window TITLE
 */
#include "xdg-shell-client-protocol.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <wayland-client.h>

enum { WIDTH = 200, HEIGHT = 100, SIZE = WIDTH * HEIGHT * 4, SHOWN_MS = 100 };

struct client {
    struct wl_display *display;
    struct wl_compositor *compositor;
    struct wl_shm *shm;
    struct xdg_wm_base *shell;
};

static void on_global(void *data, struct wl_registry *registry, uint32_t name, const char *interface, uint32_t version)
{
    struct client *client = data;
    (void)version;
    if (!strcmp(interface, wl_compositor_interface.name))
        client->compositor = wl_registry_bind(registry, name, &wl_compositor_interface, 1);
    else if (!strcmp(interface, wl_shm_interface.name))
        client->shm = wl_registry_bind(registry, name, &wl_shm_interface, 1);
    else if (!strcmp(interface, xdg_wm_base_interface.name))
        client->shell = wl_registry_bind(registry, name, &xdg_wm_base_interface, 1);
}

static void on_global_gone(void *data, struct wl_registry *registry, uint32_t name)
{
    (void)data;
    (void)registry;
    (void)name;
}

static void on_ping(void *data, struct xdg_wm_base *shell, uint32_t serial)
{
    (void)data;
    xdg_wm_base_pong(shell, serial);
}

static void on_configure(void *data, struct xdg_surface *surface, uint32_t serial)
{
    (void)data;
    xdg_surface_ack_configure(surface, serial);
}

static const struct wl_registry_listener registry_listener = { .global = on_global, .global_remove = on_global_gone };
static const struct xdg_wm_base_listener shell_listener = { .ping = on_ping };
static const struct xdg_surface_listener surface_listener = { .configure = on_configure };

static struct wl_buffer *make_buffer(struct client *client)
{
    int fd = memfd_create("window", MFD_CLOEXEC);
    void *pixels = fd >= 0 && ftruncate(fd, SIZE) == 0 ? mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    struct wl_buffer *buffer = NULL;
    if (pixels != MAP_FAILED) {
        memset(pixels, 0x80, SIZE);
        munmap(pixels, SIZE);
        struct wl_shm_pool *pool = wl_shm_create_pool(client->shm, fd, SIZE);
        buffer = wl_shm_pool_create_buffer(pool, 0, WIDTH, HEIGHT, WIDTH * 4, WL_SHM_FORMAT_XRGB8888);
        wl_shm_pool_destroy(pool);
    }
    if (fd >= 0)
        close(fd);
    return buffer;
}

/* Returns false when the compositor is gone. */
static bool show(struct client *client, struct wl_buffer *buffer, const char *title)
{
    struct wl_surface *surface = wl_compositor_create_surface(client->compositor);
    struct xdg_surface *shell_surface = xdg_wm_base_get_xdg_surface(client->shell, surface);
    struct xdg_toplevel *toplevel = xdg_surface_get_toplevel(shell_surface);
    xdg_surface_add_listener(shell_surface, &surface_listener, NULL);
    xdg_toplevel_set_title(toplevel, title);
    wl_surface_commit(surface);
    bool there = wl_display_roundtrip(client->display) >= 0; /* it has been configured */
    wl_surface_attach(surface, buffer, 0, 0);
    wl_surface_commit(surface);
    there = there && wl_display_roundtrip(client->display) >= 0; /* it is visible */
    nanosleep(&(struct timespec){ .tv_nsec = SHOWN_MS * 1000000L }, NULL);
    xdg_toplevel_destroy(toplevel);
    xdg_surface_destroy(shell_surface);
    wl_surface_destroy(surface);
    return there && wl_display_roundtrip(client->display) >= 0;
}

int main(int argc, char **argv)
{
    struct client client = { .display = wl_display_connect(NULL) };
    if (!client.display) {
        fprintf(stderr, "window: there is no compositor\n");
        return 1;
    }
    struct wl_registry *registry = wl_display_get_registry(client.display);
    wl_registry_add_listener(registry, &registry_listener, &client);
    struct wl_buffer *buffer = NULL;
    if (wl_display_roundtrip(client.display) >= 0 && client.compositor && client.shm && client.shell)
        buffer = make_buffer(&client);
    if (buffer) {
        xdg_wm_base_add_listener(client.shell, &shell_listener, NULL);
        while (show(&client, buffer, argc > 1 ? argv[1] : "window"))
            ;
    }
    wl_display_disconnect(client.display);
    return buffer ? 0 : 1;
}
