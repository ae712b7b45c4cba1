---@meta orrery

-- The whole Lua API, for editors that know LuaLS. Nothing here runs. A function that is marked
-- `async` suspends the task that calls it. Times are milliseconds, fractions allowed.

---@class orrery
---@field async orrery.async
---@field loop orrery.loop
---@field events orrery.events
---@field eventloop orrery.eventloop
---@field worker orrery.worker
---@field fs orrery.fs not in a sandbox
---@field net orrery.net in a sandbox only with grants for the network
---@field stdin orrery.stream standard input; not in a sandbox
---@field stdout orrery.stream standard output; not in a sandbox
---@field stderr orrery.stream standard error; not in a sandbox
---@field runtime orrery.runtime
---@field values orrery.values
---@field json orrery.json
---@field testing orrery.testing? only under `orrery test`
---@field version string
---Only in a Lua that has loaded Orrery as a module. Runs `fn` as a task until its tree is done, and
---returns its results or raises its error. Without `fn`, runs until nothing is left.
---@field run? fun(fn?: function, ...: any): ...
local orrery = {}

---Returns what this script may reach outside of itself.
---@return orrery.grants
function orrery.grants() end

---@class orrery.grants
---@field everything boolean the script is trusted: there are no rules
---@field asks boolean the host is asked about what no rule grants
---@field connect string[] the rules for connecting and looking up, such as "example.com:443"
---@field listen string[] the rules for addresses to listen on
local Grants = {}

---Runs a function in the next turn, in a task of its own, after functions that were scheduled
---before. Each turn runs a limited number. When the caller continues after async.checkpoint() or
---async.sleep(0), the function has run up to its first wait, unless more functions were waiting
---than one turn runs.
---@param fn fun(...)
---@param ... any its arguments
---@return orrery.scheduled
function orrery.schedule(fn, ...) end

---@class orrery.scheduled
local Scheduled = {}

---@return boolean in_time true if it had not started, and will not
function Scheduled:cancel() end

---Returns a function that schedules `fn` with its arguments.
---@param fn fun(...)
---@return fun(...): orrery.scheduled
function orrery.schedule_wrap(fn) end

---------------------------------------------------------------------------------------------- tasks

---A task. It belongs to the task that started it. It is done when its function and all its children
---are done.
---@class orrery.task
---@field name string? at most 128 bytes of the name that it was given
local Task = {}

---@alias orrery.status
---| "running"    # its Lua runs now
---| "awaiting"   # it is suspended
---| "normal"     # it has started another task, which runs
---| "completed"

---@return orrery.status
function Task:status() end

---Waits for the task and returns its results or raises its error. In a task this suspends; in plain
---code of the host it drives the loop.
---@async
---@param ms? number the longest wait; then "timeout" is raised, and the task goes on
---@return any ...
function Task:wait(ms) end

---Waits for the task and does not raise: returns true and the results, or false and the error.
---@async
---@param ms? number
---@return boolean ok
---@return any ... results, or the error
function Task:pwait(ms) end

---Cancels the task and all tasks below it, at once: their current waits raise "closed", and so does
---every later wait. It ends as closed, even if its function catches that and returns.
---@return orrery.task self
function Task:close() end

---Sets the task's results from outside. Its function and its children are cancelled.
---@param ... any
function Task:complete(...) end

---Makes the task independent of the task that started it.
---@return orrery.task self
function Task:detach() end

---Returns the stacks of the tasks that this task waits for, its own stack, and those of the tasks
---above it: of each group, the nearest sixteen.
---@param message? string the first line
---@return string
function Task:traceback(message) end

---Returns all errors of the task; the first is the one that it failed with.
---@return any[]
function Task:errors() end

---Calls a function, in a task of its own, when this task is done: with the error or nil, and the
---results.
---@param fn fun(err: any, ...)
---@return orrery.task self
function Task:on_complete(fn) end

---------------------------------------------------------------------------------------------- async

---@class orrery.async
local async = {}

---@class orrery.run_options
---@field name? string for people; 128 bytes of it are kept
---@field detached? boolean it has no parent
---@field fair? boolean other tasks may run between any two of its instructions, if it runs for long
---@field deadline? number milliseconds that it may run without waiting

---Starts a task. It runs at once, up to its first wait; then the caller continues.
---@param fn fun(...): ...
---@param ... any its arguments
---@return orrery.task
---@overload fun(name: string, fn: fun(...), ...): orrery.task
---@overload fun(options: orrery.run_options, fn: fun(...), ...): orrery.task
function async.run(fn, ...) end

---Waits for a task or a future, and returns its results or raises its error. Or calls a function
---with a callback, and returns the callback's arguments. If the function returns something that can
---be closed, it is closed when the wait is over, however it ends.
---@async
---@param what orrery.task | orrery.future | fun(callback: fun(...)): any
---@return any ...
---@overload async fun(position: integer, fn: function, ...): ...
function async.await(what) end

---Waits as await does, and does not raise: returns true and the results, or false and the error.
---@async
---@return boolean ok
---@return any ...
function async.pawait(...) end

---Waits for an amount of time.
---@async
---@param ms number
function async.sleep(ms) end

---Lets other tasks run first, and callbacks that were scheduled before.
---@async
function async.checkpoint() end

---Waits for a task. After `ms` it closes the task, waits for its cleanup, and raises "timeout". An
---error of the cleanup is reported like that of a task that nobody awaits.
---@async
---@param ms number
---@param task orrery.task
---@return any ...
function async.timeout(ms, task) end

---Calls a function. After `ms` every wait inside it raises "closed", and this raises "timeout".
---@async
---@generic R
---@param ms number
---@param fn fun(...): R
---@return R ...
function async.with_timeout(ms, fn, ...) end

---Calls a function. After `ms` every wait inside it raises "closed", and this returns nothing.
---@async
---@param ms number
---@param fn fun(...): ...
---@return any ...
function async.move_on_after(ms, fn, ...) end

---Calls a function and shields it from cancellation outside: for cleanup that has to wait.
---@async
---@param fn fun(...): ...
---@return any ...
function async.shield(fn, ...) end

---Calls a function, and waits for all tasks that it has started.
---@async
---@param fn fun(...): ...
---@return any ...
function async.scope(fn, ...) end

---Calls a function, and waits for all tasks that it has started. A task that fails does not end the
---others; its error is raised when all are done.
---@async
---@param fn fun(...): ...
---@return any ...
function async.supervise(fn, ...) end

---Waits for all tasks of a list. The first error is raised at once.
---@async
---@param tasks orrery.task[]
---@return { n: integer, [integer]: any }[] results of each task, packed, in the order of the list
function async.await_all(tasks) end

---Waits until the first task of a list is done; returns its results or raises its error.
---@async
---@param tasks orrery.task[]
---@return integer index
---@return any ... its results
function async.await_any(tasks) end

---Iterates over a list of tasks in the order in which they finish, including tasks that are done
---already: index, error or nil, results.
---@async
---@param tasks orrery.task[]
---@return async fun(): integer?, any, ...
function async.iter(tasks) end

---Returns a function that awaits `fn`, which takes its callback as argument number `position`.
---@param position integer
---@param fn function
---@return async fun(...): ...
function async.wrap(position, fn) end

---Returns whether the running task is being closed.
---@return boolean
function async.is_closing() end

---Returns the running task; nil in plain code of the host.
---@return orrery.task?
function async.current() end

---Returns the tree of tasks as text, one line for each task: the tasks below one task, or all.
---@param task? orrery.task
---@return string
function async.inspect_tree(task) end

---Returns the text of an error, the stacks of the tasks that it came through, and the caller's
---stack, from a level on. For message handlers: `xpcall(fn, async.traceback)`.
---@param err any
---@param level? integer 1, the caller, by default
---@return string
function async.traceback(err, level) end

---Makes tasks remember where they were created, from now on, for tracebacks.
---@param on boolean
function async.debug(on) end

---Waits until a file descriptor can be read.
---@async
---@param fd integer
---@return true
function async.readable(fd) end

---Waits until a file descriptor can be written.
---@async
---@param fd integer
---@return true
function async.writable(fd) end

----------------------------------------------------------------------------------------- primitives

---A result that will come later.
---@class orrery.future
local Future = {}

---@return orrery.future
function async.future() end

---@param err any nil for success
---@param ... any the results
function Future:complete(err, ...) end

---@return boolean
function Future:is_completed() end

---Waits for the future and returns the results, or raises the error. With a function, calls it with
---the error or nil, and the results. If the task is closed while it waits, "closed" is raised and
---the function is not called.
---@async
---@param callback? fun(err: any, ...)
---@return any ...
function Future:wait(callback) end

---An event stays set until it is cleared. Tasks wait until it is set.
---@class orrery.event
local Event = {}

---@return orrery.event
function async.event() end

---@async
function Event:wait() end

---@param most? integer wake at most this many; it is set only if fewer tasks wait
---@return integer woken
function Event:set(most) end

function Event:clear() end

---@return boolean
function Event:is_set() end

---A queue passes items from task to task, in order.
---Iterates with `for item in queue do`, until the queue is closed and empty.
---@class orrery.queue
---@operator len: integer
---@operator call: any
local Queue = {}

---@param capacity? integer default: no bound
---@return orrery.queue
function async.queue(capacity) end

---@async
---@param item any not nil
function Queue:put(item) end

---@param item any not nil
---@return boolean put false if there is no room
function Queue:put_nowait(item) end

---@async
---@return any item nil when the queue is closed and empty
function Queue:get() end

---@return any item
---@return nil | "empty" | "closed" reason why there is no item
function Queue:get_nowait() end

function Queue:close() end

---@return integer
function Queue:size() end

---@return orrery.queue iterator the queue itself
function Queue:iter() end

---A semaphore has a number of permits. One that begins with none counts: each release adds one.
---@class orrery.semaphore
local Semaphore = {}

---@param permits integer
---@return orrery.semaphore
function async.semaphore(permits) end

---@async
function Semaphore:acquire() end

---@return boolean acquired
function Semaphore:try_acquire() end

function Semaphore:release() end

---Calls a function with a permit, and releases the permit however the function ends.
---@async
---@param fn fun(...): ...
---@return any ...
function Semaphore:with(fn, ...) end

---A mutex belongs to one task at a time.
---@class orrery.mutex
local Mutex = {}

---@return orrery.mutex
function async.mutex() end

---@async
function Mutex:lock() end

---@return boolean locked
function Mutex:try_lock() end

function Mutex:unlock() end

---@return boolean
function Mutex:is_locked() end

---Calls a function with the mutex locked, and unlocks it however the function ends.
---@async
---@param fn fun(...): ...
---@return any ...
function Mutex:with(fn, ...) end

---A condition lets tasks wait for a change of what a mutex protects.
---@class orrery.condition
local Condition = {}

---@return orrery.condition
function async.condition() end

---Unlocks the mutex, waits for a notification, and locks the mutex again. However it ends, the task
---owns the mutex.
---@async
---@param mutex orrery.mutex
function Condition:wait(mutex) end

---@param most? integer default: 1
---@return integer notified
function Condition:notify(most) end

---@return integer notified
function Condition:notify_all() end

----------------------------------------------------------------------------------------------- loop

---@class orrery.loop
local loop = {}

---A timer. It goes on until it is closed, even if nobody holds it. Its callback runs in a task of
---its own.
---@class orrery.timer
local Timer = {}

---Creates a timer that is not started.
---@return orrery.timer
function loop.new_timer() end

---Starts the timer: it fires after `delay`, then every `repeat_ms`.
---@param delay number
---@param repeat_ms number 0 for once
---@param fn fun()
---@return orrery.timer self
function Timer:start(delay, repeat_ms, fn) end

---Restarts a repeating timer: it fires one repeat from now.
---@return orrery.timer self
function Timer:again() end

---Stops the timer. Does nothing if it is stopped or closed.
---@return orrery.timer self
function Timer:stop() end

---@param callback? fun() called in the next turn
function Timer:close(callback) end

---@return boolean
function Timer:is_active() end

---@return boolean
function Timer:is_closing() end

---@return number? ms nil if it is not started
function Timer:get_due_in() end

---Sets the repeat; a started timer uses it from its next firing on.
---@param ms number 0 for no repeat
---@return orrery.timer self
function Timer:set_repeat(ms) end

---@return number ms
function Timer:get_repeat() end

---Calls back once, after `ms`. The timer is closed before the call.
---@param ms number
---@param fn fun()
---@return orrery.timer
function loop.set_timeout(ms, fn) end

---Calls back every `ms`.
---@param ms number 0 means 1
---@param fn fun()
---@return orrery.timer
function loop.set_interval(ms, fn) end

---Does the same as set_timeout, with the arguments in the other order.
---@param fn fun()
---@param ms number
---@return orrery.timer
function loop.defer(fn, ms) end

---Returns the time of the runtime's clock in milliseconds.
---@return number
function loop.now() end

---Returns the time of the runtime's clock in nanoseconds.
---@return integer
function loop.hrtime() end

--------------------------------------------------------------------------------------------- events

---Handlers by name. They are called in the order of their registration, each as a task of its own.
---@class orrery.events
local events = {}

---Registers a handler. A name that ends with a star matches all names that begin with the part
---before the star.
---@param names string | string[]
---@param fn fun(data: any)
---@return integer id never reused
function events:on(names, fn) end

---Registers a handler as `on` does, for the next event only.
---@param names string | string[]
---@param fn fun(data: any)
---@return integer id
function events:once(names, fn) end

---Removes a handler of this script, from one name or from all.
---@param name string
---@param id integer
---@return boolean found
---@overload fun(self: orrery.events, id: integer): boolean
function events:off(name, id) end

---Starts the handlers that are registered now, one after the other. Returns when each has ended or
---waits.
---@param name string
---@param data any
---@return integer count of the handlers that were started
function events:emit(name, data) end

---@class orrery.registration
---@field id integer
---@field name string
---@field once boolean
---@field disabled boolean true if it has timed out too often in a row

---Returns the handlers that this script has registered.
---@param name? string
---@return orrery.registration[]
function events:list(name) end

---Removes all handlers of this script, or those of one name.
---@param name? string
function events:clear(name) end

------------------------------------------------------------------------------------------ eventloop

---Creates private loops, with `eventloop()` or `eventloop.new()`.
---@class orrery.eventloop
---@overload fun(): orrery.private_loop
local eventloop = {}

---A private loop: a scope on the one real loop, for functions that look synchronous but wait with
---callbacks. Its methods may be called with a dot or with a colon. Callbacks run as tasks of the
---loop, and may wait. It can be used as `<close>`.
---@class orrery.private_loop
local PrivateLoop = {}

---@return orrery.private_loop
function eventloop.new() end

---Calls back once, after `ms`, if the loop runs then; else when it next runs.
---@param ms number
---@param fn fun()
---@return fun() cancel
function PrivateLoop.setTimeout(ms, fn) end

---Calls back every `ms`. It keeps its rate and skips calls that it missed, also while its callback
---waits.
---@param ms number 0 means 1
---@param fn fun()
---@return fun() cancel
function PrivateLoop.setInterval(ms, fn) end

---Calls back for each event of that name that is queued in this loop. The loop runs until its
---handlers are unregistered, or it is stopped.
---@param name string
---@param fn fun(...)
---@return fun() unregister
function PrivateLoop.register(name, fn) end

---Queues an event in this loop.
---@param name string
---@param ... any arguments of the handlers
function PrivateLoop.queueEvent(name, ...) end

---Calls back at the start of each run; soon, if the loop is running already.
---@param fn fun()
---@return fun() cancel
function PrivateLoop.onStart(fn) end

---Calls back at the end of each run, however it ends.
---@param fn fun()
---@return fun() cancel
function PrivateLoop.onStop(fn) end

---Runs until nothing is pending, or the loop is stopped. In a task this suspends only that task; in
---plain code of the host it drives the real loop. The first error of a callback ends the loop and
---is raised.
---@async
function PrivateLoop.runLoop() end

---Ends the run. Callbacks that wait are closed; those that have not begun are kept for the next
---run.
function PrivateLoop.stopLoop() end

---@return boolean
function PrivateLoop.isRunning() end

---Returns "new" if the loop was never run, "running", or how the last run ended: "stopped" by
---stopLoop(), or because the task that ran it was closed; "dry" because nothing was pending;
---"failed" with the error that runLoop() raised. "disposed" after dispose().
---@return "new" | "running" | "stopped" | "dry" | "failed" | "disposed"
function PrivateLoop.state() end

---Returns the number of timers, handlers, queued events and unfinished callbacks. The callback that
---asks does not count.
---@return integer
function PrivateLoop.pending() end

---Stops the loop for good, and drops everything that it has.
function PrivateLoop.dispose() end

--------------------------------------------------------------------------------------------- worker

---Scripts that run on other threads, each job in its own isolate. Arguments and results are copied.
---@class orrery.worker
local worker = {}

---@class orrery.worker_options
---@field name? string the script's name in messages; default: where it was given
---Scripts by name; what each returns is a module, and a global of the worker.
---@field modules? table<string, string | fun(...)>
---@field timeout? number milliseconds for each job; default: the pool's, or 300,000

---Creates a worker for a script: Lua as text, or a function without upvalues. Raises if it does not
---compile.
---@param script string | fun(...): ...
---@param options? orrery.worker_options
---@return orrery.worker_handle
function worker.new(script, options) end

---Gives a module to all workers created later: what the script returns, for `require` and as a
---global.
---@param name string
---@param script string | fun(name: string): any
function worker.register(name, script) end

---@class orrery.map_options
---@field concurrency? integer jobs at once; default: as many as the pool allows
---@field timeout? number milliseconds for each job

---Runs a script for each element of a list, and waits for all. The first error ends the others and
---is raised.
---@async
---@param script string | fun(element: any): any | orrery.worker_handle
---@param list any[] nils are elements, too, if it has a field `n`
---@param options? orrery.map_options
---@return { n: integer, [integer]: any } results the first result of each, in the order of the list
function worker.map(script, list, options) end

---@class orrery.pool_options
---@field size? integer jobs at once; default: one for each thread
---@field queue? integer jobs that may wait; default 1,024
---@field memory? integer bytes for each isolate
---@field timeout? number milliseconds for each job

---Creates a pool with its own limits on jobs that run and that wait. It can be used as `<close>`.
---@param options? orrery.pool_options
---@return orrery.worker_pool
function worker.pool(options) end

---Creates a channel, which passes values between tasks on any threads. The capacity is at most
---1,000,000, or 10,000 if untrusted.
---@param capacity? integer values that may wait; 0: a sender waits for a receiver; default 1
---@return orrery.channel
function worker.channel(capacity) end

---@class orrery.worker_stats
---@field threads integer threads of the runtime, for all pools
---@field size integer jobs of this pool that may run at once
---@field queue integer jobs of this pool that may wait
---@field running integer jobs that run
---@field waiting integer jobs that wait
---@field done integer jobs that all pools have done since the start
---@field isolates integer isolates created for all pools since the start

---Returns statistics of the default pool.
---@return orrery.worker_stats
function worker.stats() end

---A script and its jobs that are under way. It can be used as `<close>`.
---@class orrery.worker_handle
local Worker = {}

---@class orrery.worker_run_options
---@field callback fun(...)
---@field timeout? number milliseconds
---Calls the callback with `nil, "cancelled"` after a cancellation; default: it is not called.
---@field cancelled? boolean

---Runs the script with all arguments but the last, which is a callback or a table with one. The
---callback is called, in a task of its own, with the results; or with nil, the error and its
---report; or with nil and "timeout".
---@param ... any arguments, then `fun(...)` or `orrery.worker_run_options`
---@return orrery.task? task it waits for the job; closing it cancels the job
---@return string? reason why there is no task: too many jobs wait
function Worker:run(...) end

---Runs the script with the arguments and waits for its results; raises its error, "timeout" or
---"cancelled". A last argument that is a table with `timeout` and nothing else sets the timeout.
---@async
---@param ... any
---@return any ...
function Worker:call(...) end

---Ends all jobs of the worker that are under way, wherever they are.
---@return integer count of the jobs that had not finished before
function Worker:cancel() end

---Returns how many jobs of the worker are under way.
---@return integer
function Worker:pending() end

---Cancels all jobs, and refuses new ones.
function Worker:close() end

---@class orrery.worker_pool
local Pool = {}

---Creates a worker as worker.new does, with jobs in this pool.
---@param script string | fun(...): ...
---@param options? orrery.worker_options
---@return orrery.worker_handle
function Pool:new(script, options) end

---Runs jobs as worker.map does, in this pool.
---@async
---@param script string | fun(element: any): any | orrery.worker_handle
---@param list any[]
---@param options? orrery.map_options
---@return { n: integer, [integer]: any } results
function Pool:map(script, list, options) end

---@return orrery.worker_stats
function Pool:stats() end

---Closes all workers of the pool, and refuses new ones.
function Pool:close() end

---A channel passes values between tasks of any scripts and workers of one runtime. Senders and
---receivers are served in the order of arrival. A channel can be an argument of a job, or part of
---one, and can be sent through another channel. `#` is the number of values that wait in it. It can
---be used as `<close>`.
---@class orrery.channel
---@operator len: integer
---@operator call: any
local Channel = {}

---Sends values together, as one message. Waits while there is no room.
---@async
---@param ... any
---@return true? sent
---@return "closed"? why_not
function Channel:send(...) end

---Sends values together, without waiting.
---@param ... any
---@return true? sent
---@return "full" | "closed" | nil why_not
function Channel:try_send(...) end

---Waits for the next values; returns nil and "closed" when the channel is closed and empty.
---@async
---@return any ...
function Channel:receive() end

---Receives without waiting; returns nil and "empty", or nil and "closed", if there is nothing.
---@return any ...
function Channel:try_receive() end

---Iterates with `for value in channel do` or `for value in channel:iter() do`, until the channel is
---closed and empty, or nil is received.
---@return async fun(): ...
function Channel:iter() end

---Closes the channel. Values that were sent can still be received; tasks that wait are told.
function Channel:close() end

---@return boolean
function Channel:is_closed() end

------------------------------------------------------------------------------------------------ net

---Streams, sockets and lookups: see docs/io.md. Calls that wait suspend only the task that makes
---them. What can fail returns nil and an error; misuse raises.
---@class orrery.net
local net = {}

---What has failed, as a table. `tostring(err)` names all of it: "connect 127.0.0.1:1: Connection
---refused (ECONNREFUSED)".
---@class orrery.io_error
---@field code string the name of the error, such as "ECONNREFUSED", or "EOF"
---@field message string for people
---@field operation string what was tried, such as "connect"
---@field address string? with whom
---@field path string? of which file
---@field written integer? bytes of a cancelled write that had gone out

---An address: "host:port", "127.0.0.1:80", "[::1]:80", "unix:/path" or "unix:@abstract".
---@alias orrery.address string

---@class orrery.socket_options
---@field nodelay? boolean small writes leave at once; default true
---Seconds without traffic after which the kernel asks whether the peer is still there; true: 60.
---@field keepalive? integer | boolean
---@field send_buffer? integer bytes, in the kernel
---@field receive_buffer? integer bytes, in the kernel
---@field real? boolean a real socket, on a virtual clock, too

---@class orrery.connect_options: orrery.socket_options
---@field local_address? orrery.address an IP address with a port, which may be 0

---Connects to an address. If a name has several addresses, attempts overlap: the next one starts
---when the one before has failed, or after 250 ms, and the first that is answered wins.
---@async
---@param address orrery.address
---@param options? orrery.connect_options
---@return orrery.stream? stream
---@return orrery.io_error? err
function net.connect(address, options) end

---@class orrery.listen_options: orrery.socket_options
---@field backlog? integer connections that the kernel keeps until they are accepted
---@field reuse_port? boolean several listeners may share the port
---@field v6_only? boolean a listener on "[::]:port" takes no IPv4 connections

---Listens on an address. Port 0 stands for a free port, which `listener:address()` names. It waits
---only if the host is a name.
---@async
---@param address orrery.address
---@param options? orrery.listen_options
---@return orrery.listener? listener
---@return orrery.io_error? err
function net.listen(address, options) end

---@class orrery.serve_options: orrery.listen_options
---@field max_connections? integer handlers at once; others wait in the kernel's backlog
---@field cancel_on_eof? boolean the end of the peer's output cancels the handler
---@field threads? integer one isolate on each of so many threads; the handler is then text

---Listens on an address and calls a function for each connection, in a task of its own. The server
---belongs to the task that called this. A handler that returns closes its connection, and what it
---has written still arrives. A handler that fails is reported, and closes only its own connection.
---A connection that is reset cancels its handler. With `threads`, the handler is text: Lua that
---returns the function, or the name of a module that does.
---@async
---@param address orrery.address
---@param handler fun(stream: orrery.stream) | string
---@param options? orrery.serve_options
---@return orrery.server? server
---@return orrery.io_error? err
function net.serve(address, handler, options) end

---@class orrery.udp_options
---@field peer? orrery.address the only peer: `send` needs no address, others are not received
---@field broadcast? boolean it may send to broadcast addresses
---@field reuse? boolean other sockets may use the same address and port
---@field send_buffer? integer bytes, in the kernel
---@field receive_buffer? integer bytes, in the kernel
---@field real? boolean a real socket, on a virtual clock, too

---Opens a datagram socket. The address, or the option `peer`, may be left out.
---@async
---@param address orrery.address
---@param options? orrery.udp_options
---@return orrery.datagram? socket
---@return orrery.io_error? err
---@overload fun(options: orrery.udp_options): orrery.datagram?, orrery.io_error?
function net.udp(address, options) end

---Creates two streams that are connected to each other.
---@return orrery.stream? one
---@return orrery.stream | orrery.io_error other
function net.pair() end

---Creates a pipe: what is written to the second stream is read from the first.
---@return orrery.stream? reader
---@return orrery.stream | orrery.io_error writer
function net.pipe() end

---Copies all input of one stream to another, up to its end; closes neither. Bytes between two
---sockets, or a socket and a pipe, do not pass through Lua.
---@async
---@param from orrery.stream
---@param to orrery.stream
---@return integer? bytes
---@return orrery.io_error? err
---@return integer? copied bytes that went through before the error
function net.copy(from, to) end

---Looks up the addresses of "name:port". Lookups run on threads of their own.
---@async
---@param address orrery.address
---@return orrery.address[]? addresses
---@return orrery.io_error? err
function net.lookup(address) end

---Bytes in order, both ways: a TCP connection, a Unix socket, a pipe, a standard stream. One task
---may read while another writes; a second reader or writer raises. A cancelled read consumes
---nothing. It can be used as `<close>`, and `for chunk in stream do` reads up to the end.
---@class orrery.stream
---@operator call: string?
local Stream = {}

---Reads what is there, at least one byte; waits if there is nothing. Returns nil at the end. The
---formats of Lua's `io` are accepted: "l" for a line, "L" for a line with its end, "a" for
---everything.
---@async
---@param max? integer | "l" | "L" | "a" bytes; default and most: 16,384
---@return string? bytes
---@return orrery.io_error? err
function Stream:read(max) end

---Reads exactly `count` bytes. If the input ends before, the code is "EOF", and the bytes can still
---be read.
---@async
---@param count integer
---@return string? bytes
---@return orrery.io_error? err
function Stream:read_exactly(count) end

---Reads a line and returns it without "\n" or "\r\n"; nil at the end. A last line needs no end. A
---longer line fails with the code "EMSGSIZE", and can still be read.
---@async
---@param max? integer bytes; default 65,536
---@return string? line
---@return orrery.io_error? err
function Stream:read_line(max) end

---Reads up to a text, and returns what comes before it; the rules of read_line hold.
---@async
---@param text string
---@param max? integer bytes; default 65,536
---@return string? bytes
---@return orrery.io_error? err
function Stream:read_until(text, max) end

---Reads everything up to the end. More than `max` fails with the code "EMSGSIZE", and can still be
---read.
---@async
---@param max? integer bytes; default 16,777,216
---@return string? bytes
---@return orrery.io_error? err
function Stream:read_all(max) end

---Iterates over lines. Raises errors, so that a broken connection never looks like the end.
---@param max? integer bytes of a line; default 65,536
---@return async fun(): string?
function Stream:lines(max) end

---Writes strings and numbers, or a list of them, in one go. Waits while the peer does not read.
---@async
---@param ... string | number | (string | number)[]
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:write(...) end

---Ends the output: the peer reads the end after all that was written. Reading goes on.
---@async
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:shutdown() end

---Closes the stream, both ways. A task that waits for it gets nil and an error with the code
---"ECANCELED". Closing again does nothing.
function Stream:close() end

---@return boolean
function Stream:is_open() end

---Returns the address of this end.
---@return orrery.address? address
---@return orrery.io_error? err
function Stream:address() end

---Returns the address of the other end.
---@return orrery.address? address
---@return orrery.io_error? err
function Stream:peer() end

---Changes settings of a socket.
---@param options orrery.socket_options
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:set(options) end

---Of a file: reads bytes at an offset, wherever the position is; fewer only at the end, where it
---returns nil.
---@async
---@param count integer at most 16,777,216
---@param offset integer from 0 on
---@return string? bytes
---@return orrery.io_error? err
function Stream:pread(count, offset) end

---Of a file: writes all bytes at an offset, wherever the position is.
---@async
---@param bytes string at most 16,777,216
---@param offset integer from 0 on
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:pwrite(bytes, offset) end

---Of a file: changes the position, which reading and writing share, and returns it, as Lua's own
---seek does. After the end of the input, it makes reading look again.
---@async
---@param whence? "set" | "cur" | "end" default: "cur"
---@param offset? integer default: 0
---@return integer? position
---@return orrery.io_error? err
function Stream:seek(whence, offset) end

---Of a file: returns how many bytes it has.
---@async
---@return integer? bytes
---@return orrery.io_error? err
function Stream:size() end

---Of a file: cuts it off, or fills it up with zeros.
---@async
---@param size integer bytes
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:truncate(size) end

---Of a file: waits until what was written is on the disk.
---@async
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:sync() end

---Of a file: returns what is known about it.
---@async
---@return orrery.file_stat? stat
---@return orrery.io_error? err
function Stream:stat() end

---@class orrery.lock_options
---@field shared? boolean others may have a shared lock, too
---@field wait? boolean false: fails with the code "EAGAIN" if the lock is taken

---Of a file: locks it against other locks, of this and other processes. The lock belongs to this
---open file, and ends when that is closed.
---@async
---@param options? orrery.lock_options
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:lock(options) end

---Of a file: gives the lock back.
---@async
---@return orrery.stream? self
---@return orrery.io_error? err
function Stream:unlock() end

------------------------------------------------------------------------------------------------- fs

---Files and directories: see docs/files.md. Calls that wait suspend only the task that makes them.
---What can fail returns nil and an error; misuse raises.
---@class orrery.fs
local fs = {}

---@alias orrery.file_type
---| "file"
---| "directory"
---| "symlink"
---| "fifo"
---| "socket"
---| "character device"
---| "block device"

---@class orrery.file_stat
---@field type orrery.file_type
---@field size integer bytes
---@field mode integer the permissions
---@field modified number milliseconds since 1970
---@field uid integer
---@field gid integer
---@field inode integer
---@field device integer
---@field links integer names of the file

---@class orrery.open_options
---@field mode? integer permissions of a file that is made, less the umask; default 438, octal 0666

---Opens a file: a stream with the methods of files. A FIFO or a device is a stream, too.
---@async
---@param path string
---@param mode? "r" | "r+" | "w" | "w+" | "a" | "a+" | "x" | "x+" as in Lua; "x" makes a new file
---@param options? orrery.open_options
---@return orrery.stream? file
---@return orrery.io_error? err
function fs.open(path, mode, options) end

---Reads a file whole. More than `max` bytes fail with the code "EMSGSIZE".
---@async
---@param path string
---@param max? integer default 67,108,864
---@return string? bytes
---@return orrery.io_error? err
function fs.read_file(path, max) end

---@class orrery.write_file_options
---@field atomic? boolean readers find the old bytes or the new ones, also after a crash
---@field sync? boolean waits for the disk; default true if atomic, else false
---@field mode? integer permissions of a new file; default 438, octal 0666, less the umask

---Writes a file whole.
---@async
---@param path string
---@param data string | number | (string | number)[]
---@param options? orrery.write_file_options
---@return true? done
---@return orrery.io_error? err
function fs.write_file(path, data, options) end

---@class orrery.append_file_options
---@field sync? boolean waits for the disk
---@field mode? integer permissions of a new file

---Writes at the end of a file, which is made if there is none.
---@async
---@param path string
---@param data string | number | (string | number)[]
---@param options? orrery.append_file_options
---@return true? done
---@return orrery.io_error? err
function fs.append_file(path, data, options) end

---Returns what is known about what a path leads to.
---@async
---@param path string
---@return orrery.file_stat? stat
---@return orrery.io_error? err
function fs.stat(path) end

---Returns what is known about a path itself, which may be a symbolic link.
---@async
---@param path string
---@return orrery.file_stat? stat
---@return orrery.io_error? err
function fs.lstat(path) end

---Returns whether a path leads to something; nil and an error if that cannot be told.
---@async
---@param path string
---@return boolean? exists
---@return orrery.io_error? err
function fs.exists(path) end

---Returns the names in a directory, sorted by their bytes.
---@async
---@param path string
---@return string[]? names
---@return orrery.io_error? err
function fs.list(path) end

---@class orrery.walk_options
---@field depth? integer how many levels it goes down; 1: the directory itself
---Is called for what cannot be read; the walk goes on. Default: it raises the error.
---@field on_error? fun(path: string, err: orrery.io_error)

---Iterates over everything below a directory, each directory before what is in it. It reads as it
---goes, and does not follow symbolic links.
---@param path string
---@param options? orrery.walk_options
---@return async fun(): string?, orrery.file_stat?
function fs.walk(path, options) end

---@class orrery.make_dir_options
---@field parents? boolean makes those above it, too; it may be there already
---@field mode? integer permissions, less the umask; default 511, octal 0777

---Makes a directory.
---@async
---@param path string
---@param options? orrery.make_dir_options
---@return true? done
---@return orrery.io_error? err
function fs.make_dir(path, options) end

---@class orrery.remove_options
---@field recursive? boolean a directory with all that is in it

---Removes a file, a symbolic link or an empty directory. It never follows a symbolic link.
---@async
---@param path string
---@param options? orrery.remove_options
---@return true? done
---@return orrery.io_error? err
function fs.remove(path, options) end

---Gives a file or directory another name, in the place of what has that name.
---@async
---@param from string
---@param to string
---@return true? done
---@return orrery.io_error? err
function fs.rename(from, to) end

---@class orrery.copy_options
---@field overwrite? boolean false: fails with the code "EEXIST" if `to` exists
---@field sync? boolean waits for the disk

---Copies a file inside the kernel, where it can.
---@async
---@param from string
---@param to string
---@param options? orrery.copy_options
---@return integer? bytes
---@return orrery.io_error? err
function fs.copy(from, to, options) end

---Gives a file one more name.
---@async
---@param target string
---@param link string the new name
---@return true? done
---@return orrery.io_error? err
function fs.link(target, link) end

---Makes a symbolic link.
---@async
---@param target string any text
---@param link string the new name
---@return true? done
---@return orrery.io_error? err
function fs.symlink(target, link) end

---Returns the text of a symbolic link.
---@async
---@param path string
---@return string? target
---@return orrery.io_error? err
function fs.read_link(path) end

---Opens a file without a name, to write and to read; it is gone when it is closed.
---@async
---@return orrery.stream? file
---@return orrery.io_error? err
function fs.temp_file() end

---Makes a directory that is removed, with all that is in it, when the task that made it ends.
---@async
---@return string? path
---@return orrery.io_error? err
function fs.temp_dir() end

---Joins parts of a path with "/". A part that is absolute begins the path again.
---@param ... string
---@return string
function fs.join(...) end

---Returns the last part of a path.
---@param path string
---@return string
function fs.basename(path) end

---Returns a path without its last part; "." if there is no other.
---@param path string
---@return string
function fs.dirname(path) end

---Returns the end of the last part from its last dot on, such as ".gz"; "" if there is none.
---@param path string
---@return string
function fs.extension(path) end

---Returns a path from the root on. It does not look at the disk: ".." stays.
---@param path string
---@return string? path
---@return orrery.io_error? err
function fs.absolute(path) end

---Accepts connections. It can be used as `<close>`.
---@class orrery.listener
local Listener = {}

---Waits for a connection.
---@async
---@return orrery.stream? stream
---@return orrery.io_error? err
function Listener:accept() end

---Returns the address, with the real port.
---@return orrery.address? address
---@return orrery.io_error? err
function Listener:address() end

---Accepts no more connections. A task that waits for one gets nil and an error with the code
---"ECANCELED".
function Listener:close() end

---@return boolean
function Listener:is_open() end

---A server of net.serve. It can be used as `<close>`, which stops it without grace.
---@class orrery.server
local Server = {}

---Returns the address, with the real port.
---@return orrery.address
function Server:address() end

---Accepts no more connections, waits for the handlers, and cancels those that are left after the
---grace. In a handler of the same server it returns at once, and returns nothing.
---@async
---@param grace? number milliseconds; default 5,000
---@return boolean? ended true if all handlers ended by themselves
function Server:stop(grace) end

---Returns how many connections are being served. A server with the option `threads` asks its
---threads, and waits for their answers.
---@async
---@return integer
function Server:connections() end

---A datagram socket. It can be used as `<close>`.
---@class orrery.datagram
local Datagram = {}

---Sends one message.
---@async
---@param data string
---@param address? orrery.address an IP address or a path, not a name; none if there is a peer
---@return orrery.datagram? self
---@return orrery.io_error? err
function Datagram:send(data, address) end

---Waits for a message.
---@async
---@return string? data
---@return orrery.address | orrery.io_error from the sender's address
function Datagram:receive() end

---@return orrery.address? address
---@return orrery.io_error? err
function Datagram:address() end

---@return orrery.address? address
---@return orrery.io_error? err
function Datagram:peer() end

---Receives what is sent to a multicast group.
---@param group string "239.1.2.3", "ff02::1"
---@param interface? string the name of a network interface, such as "eth0"
---@return orrery.datagram? self
---@return orrery.io_error? err
function Datagram:join(group, interface) end

---@param group string
---@param interface? string
---@return orrery.datagram? self
---@return orrery.io_error? err
function Datagram:leave(group, interface) end

---@class orrery.datagram_settings
---@field multicast_hops? integer networks that a message to a group may cross; default 1
---@field multicast_loop? boolean this machine receives it, too; default true

---@param options orrery.datagram_settings
---@return orrery.datagram? self
---@return orrery.io_error? err
function Datagram:set(options) end

function Datagram:close() end

---@return boolean
function Datagram:is_open() end

-------------------------------------------------------------------------------------------- runtime

---The limits of the script. Read-only; 0 means no limit.
---@class orrery.runtime
---Instructions that a call may run without waiting, where they are counted.
---@field execution_limit integer
---@field instructions_used integer
---@field check_interval integer instructions between two checks, where they are counted
---@field strikes integer timeouts in a row that disable a handler or a timer
---@field schedule_limit integer callbacks of schedule() that may wait
---@field schedule_per_turn integer callbacks of schedule() that one turn starts
---@field time_limit number milliseconds that this call may run without waiting
---@field time_used number as far as it is known: it is measured only after a long slice
---@field memory_limit integer bytes
---@field memory_used integer
local runtime = {}

---@class orrery.stats
---@field tasks integer
---@field memory_used integer
---@field memory_peak integer
---@field preemptions integer
---@field timeouts integer
---@field scheduled integer callbacks of schedule() that wait
---@field schedule_errors integer callbacks that failed
---@field schedule_run integer callbacks that have begun
---@field timers_pending integer timers of `loop` that will fire
---@field timers_fired integer
---@field timers_cancelled integer by scripts, before they fired
---@field timers_rearmed integer started again before they fired
---@field timers_migrated integer always 0: timers stay on the worker of their script
---@field timers_dropped integer pending when their script ended, or when they timed out too often
---@field events_refused integer
---@field events_dropped integer
---@field events_coalesced integer

---@return orrery.stats
function runtime.stats() end

--------------------------------------------------------------------------------------------- values

---Turns values into strings of bytes, by type, and back.
---@class orrery.values
local values = {}

---Encodes any number of values, nils included. For a value that cannot be copied it raises an error
---with its path: functions, coroutines, userdata, tables with metatables, cycles.
---@param ... any
---@return string bytes
function values.encode(...) end

---Decodes what was encoded. For any other string it raises an error with the position.
---@param bytes string
---@return any ...
function values.decode(bytes) end

----------------------------------------------------------------------------------------------- json

---@class orrery.json
---@field null lightuserdata stands for null, also inside tables
local json = {}

---@class orrery.json.encode_options
---@field indent integer? spaces for each level, up to 16; default: all in one line

---Encodes a value. For a value that JSON cannot express it raises an error with its path.
---@param value any
---@param options orrery.json.encode_options?
---@return string text
function json.encode(value, options) end

---@class orrery.json.decode_options
---Every number becomes a float, however large. Default: integers stay integers, and an integer of
---more than 64 bits is an error.
---@field floats boolean?

---Decodes JSON. For any other text it raises an error with line and column.
---@param text string
---@param options orrery.json.decode_options?
---@return any value
function json.decode(text, options) end

---Marks a table, or a new one, as an array: it is encoded as an array even if it is empty or has
---holes.
---@generic T: table
---@param list T?
---@return T list
function json.array(list) end

---Returns whether a table is marked, by json.array() or because it was decoded from an empty array.
---@param value any
---@return boolean
function json.is_array(value) end

-------------------------------------------------------------------------------------------- testing

---What a test file has under `orrery test`, besides the globals of types/orrery_test.lua.
---@class orrery.testing
local testing = {}

---The number of an owner. Every object carries the number of the owner that created it; objects
---that it creates in turn carry the same number.
---@alias orrery.owner integer

---@alias orrery.leak_kind
---| "task"
---| "timer"
---| "scheduled callback"
---| "stream"
---| "listener"
---| "datagram socket"
---| "event handler"
---| "private loop"
---| "private loop's timer"
---| "private loop's event handler"

---What a test has left behind, or one of its tasks.
---@class orrery.leak
---@field kind orrery.leak_kind
---@field name string?
---@field state string? the state of a task; when a timer fires
---@field waits_for string? what a task waits for
---@field at string? where a task is: file:line
---@field created string? where it was created: file:line
---@field depth integer? the depth of a task in the tree

---Returns whether the clock is virtual, and not the machine's.
---@return boolean
function testing.is_virtual() end

---Returns the time of the runtime's clock.
---@return number
function testing.now() end

---Moves the virtual clock, as if the process had stopped for `ms`: timers that were due in between
---are late.
---@param ms number
function testing.advance(ms) end

---Returns what the running test has: tasks, its own included, active timers, callbacks, handlers.
---@param owner orrery.owner? default: the running test
---@return orrery.leak[]
function testing.leaks(owner) end

---Returns the tasks only, each before its children.
---@param owner orrery.owner?
---@return orrery.leak[]
function testing.tasks(owner) end

---Makes `owner` the owner of what the running task creates from now on; without one, a new owner.
---@param owner orrery.owner?
---@return orrery.owner
function testing.mark(owner) end

---Removes an owner's timers, callbacks and handlers, and cancels its tasks.
---@param owner orrery.owner?
function testing.close(owner) end

---Stops checking an owner's private loops.
---@param owner? integer
function testing.forget(owner) end

---Ends an owner's tasks by force.
---@param owner orrery.owner?
function testing.drop(owner) end

---Returns the report of a failed task as text; nil if there is none.
---@param task orrery.task
---@return string?
function testing.report(task) end

---Waits until every callback that is scheduled now has run up to its first wait, and returns how
---many there were.
---@async
---@return integer
function testing.flush() end

---Returns whether a task has failed because something was ended at its deadline.
---@param task orrery.task
---@return boolean
function testing.timed_out(task) end

---Makes the order of ready tasks depend only on this seed, from now on; 0: in order.
---@param seed integer
function testing.shuffle(seed) end

---@class orrery.network_options
---@field seed? integer of everything that happens by chance; the same seed gives the same run
---@field latency? number milliseconds that bytes travel, one way
---@field jitter? number milliseconds more, at most, by chance
---@field bandwidth? integer bytes a second, for each connection and direction
---@field window? integer bytes that a connection holds in each direction before a write waits
---@field short_reads? number the probability that a read gets only a part of what is there
---@field short_writes? number the probability that a write needs more than one step
---@field resets? number the probability, for each write, that the connection breaks
---@field loss? number the probability that a datagram is lost

---Puts a simulated network in the place of the one that the test has. The network ends with the
---test. It can be used as `<close>`.
---@param options? orrery.network_options
---@return orrery.network
function testing.network(options) end

---A network in memory. A test runs on the host "main".
---@class orrery.network
local Network = {}

---Runs a function on a host, in a task of its own. What the task and the tasks below it open is on
---that host; others reach it by the host's name: "db:5432".
---@param name string
---@param fn fun(...): ...
---@param ... any its arguments
---@return orrery.task
function Network:host(name, fn, ...) end

---Separates two hosts, or one host from all others. Bytes wait until the network is healed, and so
---do connects; datagrams are lost.
---@param a string
---@param b? string
---@return orrery.network self
function Network:partition(a, b) end

---Ends all partitions.
---@return orrery.network self
function Network:heal() end

---Breaks a connection, on both ends.
---@param stream orrery.stream
---@return orrery.network self
function Network:reset(stream) end

---Ends the network.
function Network:close() end

return orrery
