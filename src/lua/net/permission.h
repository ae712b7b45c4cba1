/*
 * Whether a script may open something: what the gate (io/gate.h) does not grant, the host is asked
 * about, if it wants to be.  What the host grants is added to the gate.  These functions only ask:
 * the gate itself decides, when the address goes to the kernel.
 *
 * A question is a userdata in a slot of the stack, which holds nil before, and which the function
 * keeps while it waits.  So the host is asked once for each operation.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_PERMISSION_H
#define ORR_LUA_NET_PERMISSION_H

#include "io/gate.h"
#include "lua/isolate/compat.h"

struct orr_isolate;

/*
 * Ask the host, if it is to be asked.  0: there is nothing to wait for, go on to the gate.
 * -EAGAIN: the task waits for the answer; suspend it, and call again.  Else what interrupts the
 * task.  Raise outside of tasks, where nothing can wait, in the name of `what`.
 */
int permission_ask(lua_State *L, int slot, const char *what, const struct gate_request *request);
int permission_ask_lookup(lua_State *L, int slot, const char *what, const char *host, uint16_t port);

/*
 * Why an operation with this error was refused by the gate, written into `text`; NULL if it was
 * not, but by the kernel.
 */
const char *permission_message(const struct orr_isolate *iso, int error, const struct gate_request *request,
                               char text[GATE_TEXT]);

/* Whether an operation is in a simulated network. */
bool permission_is_simulated(const struct orr_open *open);

/* Makes the class of questions: [table]. */
void permission_open(struct orr_isolate *iso, lua_State *L);

#endif
