#include "lua/isolate/ban.h"

#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"

#include <stdio.h>

void ban_impose(struct orr_isolate *iso, const char *reason)
{
    struct ban *self = &iso->ban;
    if (self->imposed)
        return;
    snprintf(self->reason, sizeof self->reason, "%s", reason);
    self->imposed = true;
    calm_end(&iso->calm);
    self->tell(iso, reason);
    interrupt_request(iso);
}
