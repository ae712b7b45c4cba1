/* Where the prompt keeps its history. */
#ifndef ORR_CLI_HISTORY_H
#define ORR_CLI_HISTORY_H

/*
 * Returns the path of the file, which the caller frees: $ORRERY_HISTORY; or orrery/history in
 * $XDG_STATE_HOME or ~/.local/state, and creates missing folders.  Returns NULL for none:
 * ORRERY_HISTORY is empty, or there is no home, or no memory.
 */
char *history_path(void);

#endif
