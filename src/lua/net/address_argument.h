/* Addresses and options of sockets that scripts give.  The isolate's worker's thread. */
#ifndef ORR_LUA_NET_ADDRESS_ARGUMENT_H
#define ORR_LUA_NET_ADDRESS_ARGUMENT_H

#include "lua/isolate/compat.h"
#include "orrery.h"

enum { KEEPALIVE_S = 60 }; /* of keepalive = true */

/*
 * Raises an error about an argument.  It names the script's line, although a file of ours has
 * called the C function.
 */
int argument_raise(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An address at an index, without a name to look up; raises in the name of `what` if it is none. */
struct orr_address address_check(lua_State *L, int index, const char *what);

/* Pushes an address as text. */
void address_push(lua_State *L, const struct orr_address *address);

/* The most: for bytes of a buffer and connections in a backlog; for seconds of keepalive. */
enum { OPTION_MOST = 1 << 30, KEEPALIVE_MOST = 32767 };

/*
 * The value at the top, of an option: a whole number from `least` to `most`; raises else.  `what`
 * begins the message.
 */
int option_value(lua_State *L, const char *what, const char *name, int least, int most);

/* An option in the table at an index: a whole number from 1 on, 0 if it is absent; raises else. */
unsigned option_check_number(lua_State *L, int index, const char *name, int most);

/* An option in the table at an index, `usual` if it is absent; raises if it is not a boolean. */
bool option_check_flag(lua_State *L, int index, const char *name, bool usual);

/* The options nodelay, keepalive, send_buffer and receive_buffer of a socket. */
struct orr_socket_options option_check_socket(lua_State *L, int index);

/* split(address, what) -> host and port, or nothing if there is no name to look up.  For Lua. */
int address_split(lua_State *L);

#endif
