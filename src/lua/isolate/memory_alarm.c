#include "lua/isolate/memory_alarm.h"

#include "lua/isolate.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"

bool memory_alarm_raise(struct orr_isolate *iso)
{
    bool requested = interrupt_request(iso);
    if (requested && iso->memory_alarm.state == ALARM_OFF) {
        iso->memory_alarm.state = ALARM_RAISED;
        interrupt_hurry(iso, execution_running(&iso->execution));
    }
    return requested;
}
