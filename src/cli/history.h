/* Where the prompt keeps what was typed. */
#ifndef ORR_CLI_HISTORY_H
#define ORR_CLI_HISTORY_H

/*
 * The path of the file, the caller's to free: $ORRERY_HISTORY; or orrery/history in $XDG_STATE_HOME, or in ~/.local/state, with the
 * folders made that are missing.  NULL for none: ORRERY_HISTORY is empty, or there is no home, or no memory.
 */
char *history_path(void);

#endif
