#include "lua/task/housekeeper.h"

#include "exec/spawn.h"
#include "lua/isolate.h"
#include "lua/isolate/life.h"

static void dropped(void *data)
{
    struct housekeeper *self = data;
    struct orr_isolate *iso = self->iso;
    self->task = NULL;
    isolate_unref(iso); /* which may free the housekeeper */
}

int housekeeper_start(struct housekeeper *self, struct orr_isolate *iso, orr_poll_fn *poll, const char *name)
{
    struct orr_spawn what = { .poll = poll, .data = self, .drop = dropped, .name = name, .detached = true };
    int error = spawn_for(iso->worker, &iso->share, &what, &self->task);
    if (error)
        return error;
    self->iso = iso;
    isolate_ref(iso);
    return 0;
}

void housekeeper_end(struct housekeeper *self)
{
    if (self->task && !task_is_running(self->task))
        scope_drop_body(self->task);
}
