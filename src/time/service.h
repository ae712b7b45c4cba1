/*
 * The thread of the time service; what it is for, see timers.h.  Any thread may call these, except
 * that service_stop() is the last.
 */
#ifndef ORR_TIME_SERVICE_H
#define ORR_TIME_SERVICE_H

struct timers;

/* There is something in `orphans`: starts the thread, or wakes it. */
void service_need(struct timers *timers);

/* Somebody reads published times: keep them fresh for a while. */
void service_want_times(struct timers *timers);

/* Ends the thread, if there is one.  What it held is left in `held`. */
void service_stop(struct timers *timers);

#endif
