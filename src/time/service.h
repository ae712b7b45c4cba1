/*
 * The thread of the time service: see timers.h.  Any thread may call these; service_stop() is the
 * last call.
 */
#ifndef ORR_TIME_SERVICE_H
#define ORR_TIME_SERVICE_H

struct timers;

/* Something is in `orphans`: starts the thread, or wakes it. */
void service_need(struct timers *timers);

/* Somebody reads published times: keeps them fresh for a while. */
void service_want_times(struct timers *timers);

/* Ends the thread, if there is one.  The timers that it held stay in `held`. */
void service_stop(struct timers *timers);

#endif
