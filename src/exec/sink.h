/* Where failures go that nobody has seen: see sink.c. */
#ifndef ORR_EXEC_SINK_H
#define ORR_EXEC_SINK_H

struct orr_task;

/*
 * Tells the host's sink, or else the log, of a failure that nobody has seen.  The worker's owner.
 */
void sink_report(struct orr_task *task);

#endif
