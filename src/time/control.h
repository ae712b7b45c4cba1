/* Timers as their users see them: orr_timer_* in orrery.h, and how the layer above makes one. */
#ifndef ORR_TIME_CONTROL_H
#define ORR_TIME_CONTROL_H

#include "time/timer.h"

/* Makes a timer from options that have been checked.  -ENOMEM. */
int timer_new(struct timers *timers, const struct orr_timer_options *what, struct orr_timer **out);

#endif
