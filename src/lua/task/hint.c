#include "lua/task/hint.h"

#include "base/nearest.h"
#include "lua/isolate.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE_MAX = 1024, /* longer messages get no hint */
    NAMES_LOOKED_AT = 128,
    NAMES_LISTED = 16,
};

/* --- Names from elsewhere --------------------------------------------------------------------- */

#define MODULE "*" /* any module of the API */
#define GLOBAL "_G"

/* What to write here instead of a name that other libraries have. */
static const struct {
    const char *object; /* as missing_watch() was told */
    const char *names;  /* with a space around each */
    const char *write;  /* what to write; after a dash, what to do */
} foreign[] = {
    { "a task", " cancel kill abort stop destroy terminate dispose ", "task:close()" },
    { "a task", " join await get result results value sync ", "async.await(task)" },
    { "a task", " done is_done isDone completed is_completed finished is_finished is_alive alive is_running ",
      "task:status() == \"completed\"" },
    { "a task", " cancelled is_cancelled is_closing is_closed closed ", "async.is_closing() inside the task" },
    { "a task", " on_done onDone add_done_callback and_then andThen next after finally done_callback subscribe ",
      "task:on_complete(fn), or async.await(task)" },
    { "a task", " catch on_error onError except ", "local ok, err = async.pawait(task)" },
    { "a task", " error exception err ", "task:errors(), or async.pawait(task)" },
    { "a task", " start resume run go ", "-a task starts at once" },
    { "a task", " timeout wait_for with_timeout ", "async.timeout(ms, task)" },
    { "a task", " get_name getName ", "task.name" },
    { "a task", " set_name setName ", "async.run(name, fn)" },
    { "a queue", " push send add enqueue write append offer insert publish push_back ", "queue:put(item)" },
    { "a queue", " pop receive recv take dequeue read shift poll next remove pop_front ", "queue:get()" },
    { "a queue", " try_put try_push try_send trySend offer_nowait ", "queue:put_nowait(item)" },
    { "a queue", " try_get try_pop try_receive tryReceive poll_nowait ", "queue:get_nowait()" },
    { "a queue", " len length count qsize ", "#queue" },
    { "a queue", " empty is_empty isEmpty ", "#queue == 0" },
    { "a queue", " each items all ipairs pairs values ", "for item in queue do" },
    { "a queue", " is_closed closed isClosed ", "queue:get(), which returns nil when the queue is closed and empty" },
    { "a queue", " shutdown stop finish done ", "queue:close()" },
    { "a channel", " put push add enqueue write post postMessage emit ", "channel:send(value)" },
    { "a channel", " get pop recv take dequeue read shift poll next ", "channel:receive()" },
    { "a channel", " put_nowait try_put try_push trySend ", "channel:try_send(value)" },
    { "a channel", " get_nowait try_get try_pop tryReceive ", "channel:try_receive()" },
    { "a channel", " each items all pairs values ", "for value in channel do" },
    { "an event", " signal fire notify notify_all trigger emit raise complete resolve open ", "event:set()" },
    { "an event", " reset unset ", "event:clear()" },
    { "an event", " await join on ", "event:wait()" },
    { "a future", " resolve fulfil fulfill set set_result succeed ", "future:complete(nil, value)" },
    { "a future", " reject fail set_exception set_error cancel ", "future:complete(err)" },
    { "a future", " await get result join and_then next ", "async.await(future)" },
    { "a future", " done is_done isDone resolved is_resolved completed ", "future:is_completed()" },
    { "a semaphore", " lock wait down take enter P ", "semaphore:acquire()" },
    { "a semaphore", " unlock post up signal leave give V ", "semaphore:release()" },
    { "a semaphore", " try try_lock try_wait try_take ", "semaphore:try_acquire()" },
    { "a mutex", " acquire enter take wait ", "mutex:lock()" },
    { "a mutex", " release leave ", "mutex:unlock()" },
    { "a mutex", " try try_acquire ", "mutex:try_lock()" },
    { "a mutex", " synchronized run call ", "mutex:with(fn)" },
    { "a condition", " signal wake notify_one set ", "condition:notify()" },
    { "a condition", " broadcast signal_all wake_all ", "condition:notify_all()" },
    { "a timer", " cancel clear clearTimeout clearInterval kill ",
      "timer:close(), or timer:stop() to start it again later" },
    { "a timer", " reset restart refresh rearm ", "timer:again(), or timer:start(ms, repeat_ms, fn)" },
    { "a timer", " set schedule run ", "timer:start(ms, repeat_ms, fn)" },
    { "a worker", " post postMessage send submit exec execute start invoke apply ",
      "worker:call(...), or worker:run(..., callback)" },
    { "a worker", " terminate kill stop shutdown destroy ", "worker:close()" },
    { "a worker", " wait await join result get ", "worker:call(...), which returns the results" },
    { "a worker pool", " spawn worker create start add ", "pool:new(script)" },
    { "a worker pool", " run call exec submit ", "pool:new(script):call(...)" },
    { "a worker pool", " terminate kill stop shutdown destroy ", "pool:close()" },
    { "a private loop", " clearTimeout clearInterval clear_timeout clear_interval cancel ",
      "-call the function that setTimeout or setInterval has returned" },
    { "a private loop", " set_timeout after call_later delay startTimer ", "setTimeout(ms, fn)" },
    { "a private loop", " set_interval every ", "setInterval(ms, fn)" },
    { "a private loop", " run start loop run_forever main ", "runLoop()" },
    { "a private loop", " stop exit quit ", "stopLoop()" },
    { "a private loop", " on addListener listen subscribe handle ", "register(name, fn)" },
    { "a private loop", " off unregister remove removeListener ", "-call the function that register has returned" },
    { "a private loop", " emit push post queue fire trigger pushEvent ", "queueEvent(name, ...)" },
    { "a private loop", " close free destroy ", "dispose()" },
    { "events", " addListener addEventListener add_listener subscribe listen register add bind connect ",
      "events:on(name, fn)" },
    { "events", " removeListener removeEventListener remove unsubscribe unregister unbind disconnect ",
      "events:off(id)" },
    { "events", " fire trigger publish dispatch dispatchEvent send post raise signal notify ",
      "events:emit(name, data)" },
    { "events", " wait await next ", "async.await(function(done) events:once(name, done) end)" },
    { "events", " removeAllListeners reset ", "events:clear(name)" },
    { "json", " parse loads load read from_string deserialize unmarshal ", "json.decode(text)" },
    { "json", " stringify dumps dump write to_string serialize marshal pretty ", "json.encode(value)" },
    { "json", " NULL nil none Null ", "json.null" },
    { "values", " dump dumps pack serialize ", "values.encode(...)" },
    { "values", " load loads unpack deserialize ", "values.decode(text)" },
    { "net", " createServer create_server server Server start_server tcp_server ", "net.serve(address, handler)" },
    { "net", " createConnection create_connection open_connection dial Dial client tcp TCP socket Socket open ",
      "net.connect(address), net.listen(address) or net.serve(address, handler)" },
    { "net", " new_tcp new_pipe bind ", "net.connect(address), or net.listen(address)" },
    { "net", " createSocket create_socket dgram datagram listen_packet ListenPacket UDP new_udp ", "net.udp(address)" },
    { "net", " getaddrinfo gethostbyname resolve dns lookup_host ", "net.lookup(address)" },
    { "net", " socketpair socket_pair ", "net.pair()" },
    { "net", " splice forward ", "net.copy(from, to)" },
    { "net", " accept ", "listener:accept() of the listener that net.listen has returned" },
    { "net", " select poll ", "-a call that waits suspends only its task; start a task for each stream" },
    { "a stream", " send sendall send_all put push emit ", "stream:write(...)" },
    { "a stream", " end end_ finish shutdown_write close_write closeWrite CloseWrite write_eof half_close ",
      "stream:shutdown()" },
    { "a stream", " receive recv get data read_start recv_some ", "stream:read()" },
    { "a stream", " readline readLine receive_line gets getline ", "stream:read_line()" },
    { "a stream", " readexactly read_full readFull ReadFull recv_exactly ", "stream:read_exactly(n)" },
    { "a stream", " readuntil readUntil ", "stream:read_until(text)" },
    { "a stream", " readall readAll ReadAll read_to_end ", "stream:read_all()" },
    { "a stream", " pipe copy splice pump ", "net.copy(from, to)" },
    { "a stream", " settimeout set_timeout setTimeout timeout set_deadline SetDeadline ",
      "async.with_timeout(ms, fn) around the calls that may take long" },
    { "a stream", " flush drain ", "-write() has handed out everything when it returns" },
    { "a stream", " on once add_listener addListener ", "for line in stream:lines() do, in a task of its own" },
    { "a stream", " getpeername remote_address remoteAddress RemoteAddr ", "stream:peer()" },
    { "a stream", " getsockname local_address localAddress LocalAddr ", "stream:address()" },
    { "a stream", " setsockopt set_option setoption nodelay setNoDelay set_nodelay keepalive ",
      "stream:set{ nodelay = true }" },
    { "a stream", " destroy abort reset ", "stream:close()" },
    { "a stream", " is_closed closed is_closing isOpen destroyed ", "stream:is_open()" },
    { "a stream", " seek ", "-a stream is read and written in order" },
    { "a listener", " accept_all clients connections each on listen serve ",
      "listener:accept() in a loop, or net.serve(address, handler)" },
    { "a listener", " stop shutdown destroy ", "listener:close()" },
    { "a listener", " getsockname port get_port ", "listener:address()" },
    { "a datagram", " sendto send_to sendTo write ", "datagram:send(data, address)" },
    { "a datagram", " recv recvfrom recv_from receivefrom receive_from read on ", "datagram:receive()" },
    { "a datagram", " add_membership addMembership set_membership ", "datagram:join(group)" },
    { "a datagram", " drop_membership dropMembership ", "datagram:leave(group)" },
    { "a datagram", " getsockname ", "datagram:address()" },
    { "a datagram", " connect setpeername ", "net.udp{ peer = address }" },
    { "a server", " close shutdown kill terminate cancel ", "server:stop(grace)" },
    { "a server", " port get_port getsockname ", "server:address()" },
    { "a server", " listen start run serve serve_forever ", "-a server accepts connections at once" },
    { "a server", " clients count getConnections ", "server:connections()" },
    { "loop", " clearTimeout clearInterval clear_timeout clear_interval cancel ",
      "timer:close() of the timer that set_timeout or set_interval has returned" },
    { "loop", " timer createTimer create_timer ", "loop.new_timer()" },
    { "loop", " time clock millis update_time ", "loop.now() for milliseconds, or loop.hrtime() for nanoseconds" },
    { "worker", " spawn start create thread Thread Worker exec execute run call submit ",
      "worker.new(script):call(...)" },
    { "worker", " Pool new_pool create_pool executor ", "worker.pool(options)" },
    { "worker", " queue Channel chan pipe ", "worker.channel(capacity)" },
    { "worker", " pmap parallel each foreach ", "worker.map(script, list)" },
    { "runtime", " memory used usage ", "runtime.memory_used" },
    { "runtime", " gc info tasks status ", "runtime.stats()" },
    { "eventloop", " create make get get_event_loop run ", "eventloop.new()" },
    { "orrery", " run start main run_until_complete run_forever ",
      "-the loop runs already; call the function itself, or async.run(fn)" },
    { "orrery", " event emit on ", "orrery.events:on(name, fn) and orrery.events:emit(name, data)" },
    { "orrery", " timer timers ", "orrery.loop.new_timer()" },
    { "orrery", " task tasks ", "orrery.async.run(fn)" },
    { "orrery", " thread threads workers pool ", "orrery.worker.new(script)" },
    { "orrery", " socket sockets tcp udp network ", "orrery.net" },
    { "orrery", " input stdn std_in ", "orrery.stdin" },
    { "orrery", " output std_out ", "orrery.stdout" },

    { MODULE, " spawn create_task createTask start launch go fork task new ensure_future start_soon thread async co ",
      "async.run(fn)" },
    { MODULE, " gather all join wait_all waitAll when_all whenAll join_all all_of ", "async.await_all({ t1, t2 })" },
    { MODULE, " race any wait_any waitAny when_any select first any_of ", "async.await_any({ t1, t2 })" },
    { MODULE, " allSettled all_settled as_completed ", "for i, err, result in async.iter({ t1, t2 }) do" },
    { MODULE, " wait ", "async.await(task) to wait for a task, or async.sleep(ms) for a pause" },
    { MODULE, " delay pause nap sleep_ms msleep usleep ", "async.sleep(ms)" },
    { MODULE, " yield pass cede relax ", "async.checkpoint()" },
    { MODULE, " cancel kill abort ", "task:close()" },
    { MODULE, " cancelled is_cancelled isCancelled ", "async.is_closing()" },
    { MODULE, " wait_for fail_after timeout_after ", "async.timeout(ms, task), or async.with_timeout(ms, fn)" },
    { MODULE, " setTimeout call_later after later ", "loop.set_timeout(ms, fn)" },
    { MODULE, " setInterval every interval ", "loop.set_interval(ms, fn)" },
    { MODULE, " clearTimeout clearInterval ", "timer:close() of the timer that set_timeout has returned" },
    { MODULE, " nextTick next_tick setImmediate call_soon queueMicrotask post ", "orrery.schedule(fn)" },
    { MODULE, " defer ", "loop.defer(fn, ms) to call it later, or a <close> variable to clean up" },
    { MODULE, " Promise promise deferred Deferred Future new_future ", "async.future()" },
    { MODULE, " lock Lock ", "async.mutex()" },
    { MODULE, " channel Channel chan ", "async.queue(capacity), or worker.channel(capacity) between threads" },
    { MODULE, " nursery open_nursery group task_group TaskGroup coroutineScope ", "async.scope(fn)" },
    { MODULE, " try try_await ", "local ok, err = async.pawait(task)" },
    { MODULE, " to_thread run_in_executor ", "worker.new(script):call(...)" },
    { MODULE, " promisify callback ", "async.wrap(position_of_the_callback, fn)" },
    { MODULE, " tree inspect tasks ", "async.inspect_tree()" },

    { GLOBAL, " spawn create_task createTask go ensure_future ", "async.run(fn)" },
    { GLOBAL, " gather ", "async.await_all({ t1, t2 })" },
    { GLOBAL, " delay usleep msleep sleep_ms ", "async.sleep(ms)" },
    { GLOBAL, " setTimeout ", "loop.set_timeout(ms, fn)" },
    { GLOBAL, " setInterval ", "loop.set_interval(ms, fn)" },
    { GLOBAL, " clearTimeout clearInterval ", "timer:close() of the timer that set_timeout has returned" },
    { GLOBAL, " nextTick setImmediate queueMicrotask ", "orrery.schedule(fn)" },
    { GLOBAL, " Promise ", "async.future()" },
};

static const char *find_foreign(const char *object, const char *name)
{
    char word[MISSING_NAME + 2];
    snprintf(word, sizeof word, " %s ", name);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(foreign[i].object, object) && strstr(foreign[i].names, word))
            return foreign[i].write;
    return NULL;
}

/* Whether the object is a module.  The names of other objects have an article. */
static bool is_module(const char *object)
{
    return !strchr(object, ' ');
}

/* --- Names of the API ------------------------------------------------------------------------- */

/* Fills `names` with the keys of the table at the top, which keeps them alive; returns how many. */
static size_t collect_names(lua_State *L, const char **names)
{
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "_";
        if (*name == '_')
            continue;
        names[count++] = name;
        if (count == NAMES_LOOKED_AT) {
            lua_pop(L, 2);
            break;
        }
    }
    return count;
}

/*
 * Pushes a question about the module that has a field of that name: any, or for a global, one whose
 * names nobody gives to functions of their own.
 */
static bool push_elsewhere(lua_State *L, const char *name, bool global)
{
    missing_push_watched(L);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *object = lua_tostring(L, -1);
        if (!is_module(object) || (global && strcmp(object, "async") != 0 && strcmp(object, "loop") != 0))
            continue;
        lua_pushstring(L, name);
        bool has = lua_rawget(L, -3) != LUA_TNIL;
        lua_pop(L, 1);
        if (!has)
            continue;
        lua_pushfstring(L, "did you mean %s%s%s?", object, strcmp(object, "events") ? "." : ":", name);
        lua_replace(L, -4);
        lua_pop(L, 2);
        return true;
    }
    lua_pop(L, 1);
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pushes a list of the names, if there are few. */
static bool push_list(lua_State *L, const char *object, const char *name, const char **names, size_t count)
{
    if (!count || count > NAMES_LISTED)
        return false;
    qsort(names, count, sizeof *names, compare_names);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    lua_pushfstring(L, "%s has no '%s', only ", object, name);
    luaL_addvalue(&text);
    for (size_t i = 0; i < count; i++) {
        luaL_addstring(&text, !i ? "" : i + 1 < count ? ", " : " and ");
        luaL_addstring(&text, names[i]);
    }
    luaL_pushresult(&text);
    return true;
}

/* --- Hints ------------------------------------------------------------------------------------ */

/* Pushes a hint about a field that the watched table at the top does not have; false for none. */
static bool push_hint_for_field(lua_State *L, const char *object, const char *name)
{
    const char *write = find_foreign(object, name);
    const char *names[NAMES_LOOKED_AT];
    size_t count = collect_names(L, names);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return false; /* it was set since then */
    if (!write && !strcmp(object, "orrery") && api_modules_has_field(name)) {
        lua_pushfstring(L, "the host has not given this script '%s'", name);
        return true;
    }
    if (!write && is_module(object)) {
        write = find_foreign(MODULE, name);
        if (!write && push_elsewhere(L, name, false))
            return true;
    }
    const char *near = write ? NULL : nearest(name, names, count);
    if (write)
        lua_pushfstring(L, "%s has no '%s': %s%s", object, name, *write == '-' ? "" : "write ",
                        write + (*write == '-'));
    else if (near)
        lua_pushfstring(L, "did you mean '%s'?", near);
    else
        return !is_module(object) && push_list(L, object, name, names, count);
    return true;
}

static bool push_hint_for_global(lua_State *L, const char *name)
{
    const char *write = find_foreign(GLOBAL, name);
    if (!write)
        return late_try_api(L) && push_elsewhere(L, name, true);
    lua_pushfstring(L, "there is no global '%s': write %s", name, write);
    return true;
}

/* What a message of Lua says about a nil value. */
struct nil_value {
    char kind[16], name[MISSING_NAME];
};

/* Reads the end of a message: "a nil value (KIND 'NAME')". */
static bool read_message(const char *message, struct nil_value *out)
{
    const char *at = strstr(message, " a nil value (");
    int end = 0;
    if (!at || sscanf(at, " a nil value (%15[a-z] '%39[^']')%n", out->kind, out->name, &end) != 2)
        return false;
    return end && !at[end];
}

static bool push_hint(struct orr_isolate *iso, lua_State *L, const struct nil_value *nil, bool raising)
{
    if (!strcmp(nil->kind, "global"))
        return push_hint_for_global(L, nil->name);
    /* A variable may have been read earlier; a field is read where the error is raised. */
    bool kept = !strcmp(nil->kind, "local") || !strcmp(nil->kind, "upvalue");
    struct missing_place place = missing_find_place(L, 1);
    if (!missing_find(iso, L, nil->name, raising && !kept ? &place : NULL))
        return false;
    const char *object = lua_tostring(L, -1); /* the table of watched tables keeps it alive */
    lua_pop(L, 1);
    bool found = push_hint_for_field(L, object, nil->name);
    lua_remove(L, found ? -2 : -1);
    return found;
}

void hint_add(struct orr_isolate *iso, lua_State *L, int index, bool raising)
{
    struct nil_value nil;
    size_t length;
    const char *message = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;
    if (!message || length > MESSAGE_MAX || !read_message(message, &nil) || !lua_checkstack(L, 12))
        return;
    index = lua_absindex(L, index);
    if (!push_hint(iso, L, &nil, raising))
        return;
    lua_pushfstring(L, "%s; %s", message, lua_tostring(L, -1));
    lua_replace(L, index);
    lua_pop(L, 1);
}
