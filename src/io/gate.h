/*
 * The gate: the one place where it is decided which addresses an isolate reaches.  Every
 * connect(2), bind(2) and message to an address passes it right before the system call, or before a
 * simulated network does what the kernel would do.  Without a gate, everything is granted.
 *
 * What is checked is the address that the kernel gets, after names were looked up, in one form
 * (address_class.h).  So it does not matter how a script has written it.
 *
 * Names.  A lookup is allowed if a rule for connecting has the name.  The gate then notes the
 * addresses that the lookup gave, with the ports of the rule; an address that was noted may be
 * connected to, unless it is special.  No name is looked up a second time between the check and the
 * connection, so an answer that changes meanwhile (DNS rebinding) changes nothing, and an answer
 * that leads to a special address is refused: for that, a rule must have the address as well.  A
 * noted address may also be reached by other names that lead to it, and by itself.  In a simulated
 * network there is nothing to protect, so there a noted address may be special; it is noted for
 * simulated networks alone.  The gate remembers the last GATE_NOTED addresses.
 *
 * Unix sockets.  A path must be granted in its plain form, and no part of it may be a symbolic
 * link. To connect, the socket is opened part by part, and the kernel gets a reference to what was
 * opened. To listen, the socket is made by its path, and then looked for in the folder that was
 * opened.
 *
 * Sharing.  A port that other sockets may use as well (SO_REUSEPORT; SO_REUSEADDR of datagram
 * sockets) must be granted by its number, and not in a range: else a script could take connections
 * from its host, or from another script.
 *
 * A gate belongs to one isolate's worker.  Its rules never change and are shared; grants that the
 * host adds later belong to the gate.
 */
#ifndef ORR_IO_GATE_H
#define ORR_IO_GATE_H

#include "base/alloc.h"
#include "io/address_rule.h"

enum {
    GATE_NOTED = 512, /* addresses of names */
    GATE_ADDED = 128, /* grants that were added; a further one takes the place of the oldest */
    GATE_GRANT = 288, /* room for a grant as text */
    GATE_TEXT = 1024, /* room for every reason of a refusal */
};

enum gate_use {
    GATE_CONNECT, /* connect to an address, or send a message there */
    GATE_LISTEN,  /* have an address of one's own: bind, listen, join a group */
    GATE_USES,
};

/* Rules that never change. */
struct gate_rules {
    struct address_rule *rules[GATE_USES];
    unsigned count[GATE_USES];
};

struct orr_gate;

/* What is asked. */
struct gate_request {
    enum gate_use use;
    const struct orr_address *address; /* sound */
    bool shared;                       /* others may use the same port */
    bool simulated;                    /* in a simulated network */
};

/* Makes a gate with rules that live as long; NULL without memory. */
struct orr_gate *gate_new(const struct alloc *alloc, const struct gate_rules *rules);
void gate_free(struct orr_gate *gate); /* NULL is allowed */

/* --- Questions, which change nothing ---------------------------------------------------------- */

/* Whether something is granted; everything is for NULL. */
bool gate_grants(const struct orr_gate *gate, const struct gate_request *request);

/* Whether a name may be looked up; every one for NULL. */
bool gate_grants_lookup(const struct orr_gate *gate, const char *host);

/* Calls `each` with the text of each grant: the rules, then those that were added. */
void gate_visit(const struct orr_gate *gate, enum gate_use use, void (*each)(void *data, const char *text), void *data);

/* Writes the smallest grant that a request needs, as the text of a rule. */
void gate_describe(const struct gate_request *request, char text[GATE_GRANT]);

/* Writes why a request is refused, and how to grant it. */
void gate_explain(const struct gate_request *request, char text[GATE_TEXT]);
void gate_explain_lookup(const char *host, uint16_t port, char text[GATE_TEXT]);

/* --- Changes ---------------------------------------------------------------------------------- */

/* Adds a grant, which is copied.  -EINVAL for a text that is no rule, -ENOMEM. */
int gate_add(struct orr_gate *gate, enum gate_use use, const char *text);

/* Notes an address that the lookup of a name gave.  -ENOMEM.  NULL is allowed. */
int gate_note(struct orr_gate *gate, const char *host, const struct orr_address *address, bool simulated);

/* --- The way through -------------------------------------------------------------------------- */

/* What the kernel gets.  `address` points into the struct, or to what was asked about. */
struct passage {
    const struct orr_address *address;
    struct orr_address instead;
    int folder;       /* to listen: where the path is; AT_FDCWD if it was not opened */
    const char *name; /* to listen: the path from there; NULL if it is none */
    int held;         /* a descriptor until the end; -1 for none */
};

/*
 * Checks a request for real sockets and says what to give to the kernel.  gate_leave() must follow
 * the system call.  -EACCES, or why a path cannot be opened.
 */
int gate_pass(const struct orr_gate *gate, const struct gate_request *request, struct passage *passage);
void gate_leave(struct passage *passage);

/* After bind(2): whether the path was made in the folder that was checked.  -EACCES. */
int gate_confirm(const struct passage *passage);

#endif
