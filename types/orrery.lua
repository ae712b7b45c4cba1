---@meta orrery

-- The whole Lua API, for editors that know LuaLS.  Nothing here runs.  What is marked `async` suspends the task that calls it.
-- Times are milliseconds, fractions allowed.

---@class orrery
---@field async orrery.async
---@field loop orrery.loop
---@field events orrery.events
---@field eventloop orrery.eventloop
---@field worker orrery.worker
---@field runtime orrery.runtime
---@field values orrery.values
---@field json orrery.json
---@field testing orrery.testing? only under `orrery test`
---@field version string
---@field run? fun(fn?: function, ...: any): ... only in a Lua that has loaded Orrery as a module: runs `fn` as a task until its tree is done, and returns its results or raises its error; without it, runs until nothing is left
local orrery = {}

---Runs a function in the next turn, in a task of its own, after those that were scheduled before.  Some are run in each turn.  It has run, as far as
---its first wait, when the caller goes on after async.checkpoint() or async.sleep(0), unless more were waiting than are run in one turn.
---@param fn fun(...)
---@param ... any its arguments
---@return orrery.scheduled
function orrery.schedule(fn, ...) end

---@class orrery.scheduled
local Scheduled = {}

---@return boolean in_time it has not been started, and will not be
function Scheduled:cancel() end

---A function that, called, schedules `fn` with the same arguments.
---@param fn fun(...)
---@return fun(...): orrery.scheduled
function orrery.schedule_wrap(fn) end

--------------------------------------------------------------------------------------------------------------- tasks

---A task.  It belongs to the task that started it, and is done when its function and all its children are.
---@class orrery.task
---@field name string? at most 128 bytes of what it was given
local Task = {}

---@alias orrery.status
---| "running"    # its Lua runs now
---| "awaiting"   # it is suspended
---| "normal"     # it has started another task, which runs
---| "completed"

---@return orrery.status
function Task:status() end

---Waits for its results, and raises its error.  In a task this suspends; in plain code of the host it drives the loop.
---@async
---@param ms? number at most so long; then "timeout" is raised, and the task goes on
---@return any ...
function Task:wait(ms) end

---The same, without raising: true and the results, or false and the error.
---@async
---@param ms? number
---@return boolean ok
---@return any ... results, or the error
function Task:pwait(ms) end

---Cancels it and all tasks below it, at once: what they wait for raises "closed", now and every time from now on.  It ends as closed, also if its
---function catches that and returns.
---@return orrery.task self
function Task:close() end

---Settles its results from outside.  Its function and its children are cancelled.
---@param ... any
function Task:complete(...) end

---Makes it independent of the task that started it.
---@return orrery.task self
function Task:detach() end

---The stacks of the tasks that this one waits for, of itself, and of those above it: of each, the nearest sixteen.
---@param message? string to begin with
---@return string
function Task:traceback(message) end

---All errors in it, the one that it failed with first.
---@return any[]
function Task:errors() end

---Calls a function, in a task of its own, when this one is done: with the error or nil, and the results.
---@param fn fun(err: any, ...)
---@return orrery.task self
function Task:on_complete(fn) end

--------------------------------------------------------------------------------------------------------------- async

---@class orrery.async
local async = {}

---@class orrery.run_options
---@field name? string for people; 128 bytes of it are kept
---@field detached? boolean it belongs to nobody
---@field fair? boolean other tasks may run between any two of its instructions, when it runs for long
---@field deadline? number the milliseconds that it may run without waiting

---Starts a task.  It runs at once, up to its first wait; then the caller goes on.
---@param fn fun(...): ...
---@param ... any its arguments
---@return orrery.task
---@overload fun(name: string, fn: fun(...), ...): orrery.task
---@overload fun(options: orrery.run_options, fn: fun(...), ...): orrery.task
function async.run(fn, ...) end

---Waits for a task or a future, and returns its results or raises its error.  Or calls `fn` with a callback, and returns what
---that is called with; what `fn` returns, if it can be closed, is closed when the wait is over, however it ends.
---@async
---@param what orrery.task | orrery.future | fun(callback: fun(...)): any
---@return any ...
---@overload async fun(position: integer, fn: function, ...): ...
function async.await(what) end

---As await, without raising: true and the results, or false and the error.
---@async
---@return boolean ok
---@return any ...
function async.pawait(...) end

---@async
---@param ms number
function async.sleep(ms) end

---Lets other tasks run first, and what was scheduled before.
---@async
function async.checkpoint() end

---Waits for a task for at most so long; then closes it, waits for its cleanup, and raises "timeout".
---@async
---@param ms number
---@param task orrery.task
---@return any ...
function async.timeout(ms, task) end

---Calls a function; after so long, all that it waits for raises "closed", and this raises "timeout".
---@async
---@generic R
---@param ms number
---@param fn fun(...): R
---@return R ...
function async.with_timeout(ms, fn, ...) end

---The same, but returns nothing then.
---@async
---@param ms number
---@param fn fun(...): ...
---@return any ...
function async.move_on_after(ms, fn, ...) end

---Calls a function that cancellation from outside does not reach: for cleanup that has to wait.
---@async
---@param fn fun(...): ...
---@return any ...
function async.shield(fn, ...) end

---Calls a function, and waits for all tasks that it has started.
---@async
---@param fn fun(...): ...
---@return any ...
function async.scope(fn, ...) end

---The same, but a task that fails does not end the others; its error is raised when all are done.
---@async
---@param fn fun(...): ...
---@return any ...
function async.supervise(fn, ...) end

---Waits for all tasks of a list.  The first error is raised at once.
---@async
---@param tasks orrery.task[]
---@return { n: integer, [integer]: any }[] results of each, packed, in the order of the tasks
function async.await_all(tasks) end

---Waits for the first of a list to be done, and raises its error.
---@async
---@param tasks orrery.task[]
---@return integer index
---@return any ... its results
function async.await_any(tasks) end

---Goes through a list of tasks in the order in which they are done, those that are done already among them: index, error or nil, results.
---@async
---@param tasks orrery.task[]
---@return async fun(): integer?, any, ...
function async.iter(tasks) end

---A function that awaits `fn`, whose callback is its argument number `position`.
---@param position integer
---@param fn function
---@return async fun(...): ...
function async.wrap(position, fn) end

---Whether the running task is being closed.
---@return boolean
function async.is_closing() end

---The running task; nothing in plain code.
---@return orrery.task?
function async.current() end

---The tree of tasks as text, a line a task; below one, or all.
---@param task? orrery.task
---@return string
function async.inspect_tree(task) end

---Tasks made from now on remember where, for tracebacks.
---@param on boolean
function async.debug(on) end

---Waits until a file descriptor can be read, or written.
---@async
---@param fd integer
---@return true
function async.readable(fd) end

---@async
---@param fd integer
---@return true
function async.writable(fd) end

---------------------------------------------------------------------------------------------------------- primitives

---A result that is to come.
---@class orrery.future
local Future = {}

---@return orrery.future
function async.future() end

---@param err any nil if all is well
---@param ... any the results
function Future:complete(err, ...) end

---@return boolean
function Future:is_completed() end

---Waits for it and returns the results, or raises the error.  With a function: calls it, with the error or nil and the results; a task that is
---closed while it waits for that raises "closed", and does not call it.
---@async
---@param callback? fun(err: any, ...)
---@return any ...
function Future:wait(callback) end

---Something that happens; it stays set until it is cleared.
---@class orrery.event
local Event = {}

---@return orrery.event
function async.event() end

---@async
function Event:wait() end

---@param most? integer wake at most so many; it is set only if fewer wait
---@return integer woken
function Event:set(most) end

function Event:clear() end

---@return boolean
function Event:is_set() end

---Items in order, between tasks.
---@class orrery.queue
---@operator len: integer
local Queue = {}

---@param capacity? integer no bound if left out
---@return orrery.queue
function async.queue(capacity) end

---@async
---@param item any
function Queue:put(item) end

---@param item any
---@return boolean put false if there is no room
function Queue:put_nowait(item) end

---@async
---@return any item nil when the queue is closed and empty
function Queue:get() end

---@return any item
---@return nil | "empty" | "closed" why there is none
function Queue:get_nowait() end

function Queue:close() end

---@return integer
function Queue:size() end

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

---Calls a function with a permit, which is given back however it ends.
---@async
---@param fn fun(...): ...
---@return any ...
function Semaphore:with(fn, ...) end

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

---@async
---@param fn fun(...): ...
---@return any ...
function Mutex:with(fn, ...) end

---@class orrery.condition
local Condition = {}

---@return orrery.condition
function async.condition() end

---Gives up the mutex, waits to be notified, and locks it again; however it ends, the task has it.
---@async
---@param mutex orrery.mutex
function Condition:wait(mutex) end

---@param most? integer 1 if left out
---@return integer notified
function Condition:notify(most) end

---@return integer notified
function Condition:notify_all() end

---------------------------------------------------------------------------------------------------------------- loop

---@class orrery.loop
local loop = {}

---A timer.  It goes on until it is closed, whether anybody holds it or not.  Its callback runs in a task of its own.
---@class orrery.timer
local Timer = {}

---@return orrery.timer
function loop.new_timer() end

---@param delay number
---@param repeat_ms number 0 for once
---@param fn fun()
---@return orrery.timer self
function Timer:start(delay, repeat_ms, fn) end

---Starts it anew, one repeat from now.
---@return orrery.timer self
function Timer:again() end

---Does nothing to a timer that is stopped, or closed.
---@return orrery.timer self
function Timer:stop() end

function Timer:close() end

---@return boolean
function Timer:is_active() end

---@return boolean
function Timer:is_closing() end

---@return number? ms nil if it is not started
function Timer:get_due_in() end

---Sets what it repeats at: from its next firing on, if it is started.
---@param ms number 0 for no more
---@return orrery.timer self
function Timer:set_repeat(ms) end

---@return number ms
function Timer:get_repeat() end

---Calls back once; the timer is closed by then.
---@param ms number
---@param fn fun()
---@return orrery.timer
function loop.set_timeout(ms, fn) end

---@param ms number 0 for 1
---@param fn fun()
---@return orrery.timer
function loop.set_interval(ms, fn) end

---The same, the other way round.
---@param fn fun()
---@param ms number
---@return orrery.timer
function loop.defer(fn, ms) end

---Milliseconds of the runtime's clock.
---@return number
function loop.now() end

---Nanoseconds of the runtime's clock.
---@return integer
function loop.hrtime() end

-------------------------------------------------------------------------------------------------------------- events

---Handlers by name.  They are called in the order of their registration, each as a task of its own.
---@class orrery.events
local events = {}

---Registers a handler.  A name that ends with a star stands for all that begin with what is before it.
---@param names string | string[]
---@param fn fun(data: any)
---@return integer id never used again
function events:on(names, fn) end

---As `on`, for the next event only.
---@param names string | string[]
---@param fn fun(data: any)
---@return integer id
function events:once(names, fn) end

---Takes a handler of this script's away, from one name or from all.
---@param name string
---@param id integer
---@return boolean there_was_one
---@overload fun(self: orrery.events, id: integer): boolean
function events:off(name, id) end

---Starts the handlers that are registered now, one after the other; returns when each has ended or waits.
---@param name string
---@param data any
---@return integer count of those started
function events:emit(name, data) end

---@class orrery.registration
---@field id integer
---@field name string
---@field once boolean
---@field disabled boolean it has timed out too often in a row

---The handlers that this script has registered.
---@param name? string
---@return orrery.registration[]
function events:list(name) end

---Takes all handlers of this script's away, or those of one name.
---@param name? string
function events:clear(name) end

----------------------------------------------------------------------------------------------------------- eventloop

---Makes private loops, by `eventloop()` or by `eventloop.new()`.
---@class orrery.eventloop
---@overload fun(): orrery.private_loop
local eventloop = {}

---A private loop: a scope on the one real loop, for functions that look synchronous and wait by callbacks.  Its methods may be
---called with a dot or with a colon.  Callbacks run as tasks of the loop, and may wait.  It can be used as `<close>`.
---@class orrery.private_loop
local PrivateLoop = {}

---@return orrery.private_loop
function eventloop.new() end

---Calls back once, so long from now, if the loop runs then; or when it next runs.
---@param ms number
---@param fn fun()
---@return fun() cancel
function PrivateLoop.setTimeout(ms, fn) end

---Calls back again and again.  It keeps its rate, and skips what it missed, also while its callback waits.
---@param ms number 0 for 1
---@param fn fun()
---@return fun() cancel
function PrivateLoop.setInterval(ms, fn) end

---Calls back for each event of that name that is queued in this loop.  The loop runs until its handlers have left, or it is stopped.
---@param name string
---@param fn fun(...)
---@return fun() unregister
function PrivateLoop.register(name, fn) end

---@param name string
---@param ... any for the handlers
function PrivateLoop.queueEvent(name, ...) end

---Calls back at the beginning of each run; soon, if the loop runs already.
---@param fn fun()
---@return fun() cancel
function PrivateLoop.onStart(fn) end

---Calls back at the end of each run, however it ends.
---@param fn fun()
---@return fun() cancel
function PrivateLoop.onStop(fn) end

---Runs until nothing is pending, or the loop is stopped.  In a task this suspends that task alone; in plain code of the host it
---drives the real loop.  The first error of a callback ends the loop and is raised.
---@async
function PrivateLoop.runLoop() end

---Ends the run: callbacks that wait are closed; what has not begun is kept for the next run.
function PrivateLoop.stopLoop() end

---@return boolean
function PrivateLoop.isRunning() end

---"new": it was never run.  "running".  How the last run has ended: "stopped", by stopLoop(), or because the task that ran it was closed; "dry",
---because nothing was pending any more; "failed", by the error that runLoop() has raised.  "disposed".
---@return "new" | "running" | "stopped" | "dry" | "failed" | "disposed"
function PrivateLoop.state() end

---Timers, handlers, events that are queued, and callbacks that are not done, but for the one that asks.
---@return integer
function PrivateLoop.pending() end

---Stops the loop for good, and drops all that it has.
function PrivateLoop.dispose() end

-------------------------------------------------------------------------------------------------------------- worker

---Scripts that run on other threads, each job in an isolate of its own.  Arguments and results are copied.
---@class orrery.worker
local worker = {}

---@class orrery.worker_options
---@field name? string what messages call the script; default: where it was given
---@field modules? table<string, string | fun(...)> scripts by their names; what each returns is a module and a global of the worker's
---@field timeout? number milliseconds for each of its jobs; default: the pool's, or 300,000

---A worker for a script: Lua as a text, or a function without upvalues.  Raises if it does not compile.
---@param script string | fun(...): ...
---@param options? orrery.worker_options
---@return orrery.worker_handle
function worker.new(script, options) end

---Gives a module to all workers that are made from now on: what the script returns, by `require` and as a global.
---@param name string
---@param script string | fun(name: string): any
function worker.register(name, script) end

---@class orrery.map_options
---@field concurrency? integer jobs at once; default: as many as the pool runs at once
---@field timeout? number milliseconds for each

---Runs a script for each element of a list, and waits for all.  The first error is raised, and ends the others.
---@async
---@param script string | fun(element: any): any | orrery.worker_handle
---@param list any[] nils are elements too, if it has a field `n`
---@param options? orrery.map_options
---@return { n: integer, [integer]: any } results the first of each, in the order of the list
function worker.map(script, list, options) end

---@class orrery.pool_options
---@field size? integer jobs at once; default: one for each thread
---@field queue? integer jobs that may wait; default 1,024
---@field memory? integer bytes that each isolate may have
---@field timeout? number milliseconds for each job

---A pool of its own: so many jobs at once, so many that wait.  It can be used as `<close>`.
---@param options? orrery.pool_options
---@return orrery.worker_pool
function worker.pool(options) end

---A channel: values on their way between tasks, on any thread.
---@param capacity? integer values that wait in it; 0: a sender waits until it is received; default 1; at most 1,000,000, or 10,000 if untrusted
---@return orrery.channel
function worker.channel(capacity) end

---@class orrery.worker_stats
---@field threads integer of the runtime's, for all pools
---@field size integer jobs of this pool that may run at once
---@field queue integer that may wait
---@field running integer
---@field waiting integer
---@field done integer jobs of all pools, since the start
---@field isolates integer made for all pools, since the start

---Figures of the pool that is everybody's.
---@return orrery.worker_stats
function worker.stats() end

---A script, and the jobs of it that are under way.  It can be used as `<close>`.
---@class orrery.worker_handle
local Worker = {}

---@class orrery.worker_run_options
---@field callback fun(...)
---@field timeout? number milliseconds
---@field cancelled? boolean the callback is told `nil, "cancelled"`, too; default: it is not called then

---Runs the script with all arguments but the last, which is a callback or a table with one.  It is called, in a task of its own, with the
---results; or with nil, the error and its report; or with nil and "timeout".
---@param ... any arguments, then `fun(...)` or `orrery.worker_run_options`
---@return orrery.task? task which waits for the job: closing it cancels the job
---@return string? why there is none: too many jobs wait
function Worker:run(...) end

---Runs the script with the arguments and waits for its results; raises its error, or "timeout", or "cancelled".  A last argument that is
---a table with `timeout` and nothing else says how long.
---@async
---@param ... any
---@return any ...
function Worker:call(...) end

---Ends all jobs of it that are under way, wherever they are.
---@return integer count of those that it was in time for
function Worker:cancel() end

---Jobs of it that are under way.
---@return integer
function Worker:pending() end

---Cancels all, and refuses any more.
function Worker:close() end

---@class orrery.worker_pool
local Pool = {}

---As worker.new, with jobs in this pool.
---@param script string | fun(...): ...
---@param options? orrery.worker_options
---@return orrery.worker_handle
function Pool:new(script, options) end

---As worker.map, in this pool.
---@async
---@param script string | fun(element: any): any | orrery.worker_handle
---@param list any[]
---@param options? orrery.map_options
---@return { n: integer, [integer]: any } results
function Pool:map(script, list, options) end

---@return orrery.worker_stats
function Pool:stats() end

---Closes all workers of it, and refuses any more.
function Pool:close() end

---Values on their way between tasks, of any scripts and workers of one runtime.  Everybody is served in the order of arrival.  A channel can
---be an argument of a job, or part of one, and can be sent through another.  `#` is how many values wait in it.  It can be used as
---`<close>`.
---@class orrery.channel
---@operator len: integer
local Channel = {}

---Sends values, together, as one; waits while there is no room.
---@async
---@param ... any
---@return true? sent
---@return "closed"? why_not
function Channel:send(...) end

---The same, without waiting.
---@param ... any
---@return true? sent
---@return "full" | "closed" | nil why_not
function Channel:try_send(...) end

---Waits for what was sent next; nil and "closed" when it is closed and empty.
---@async
---@return any ...
function Channel:receive() end

---The same, without waiting: nil and "empty", or nil and "closed".
---@return any ...
function Channel:try_receive() end

---`for value in channel:iter() do`: until it is closed and empty, or nil is received.
---@return async fun(): ...
function Channel:iter() end

---What was sent can still be received; those who wait are told.
function Channel:close() end

---@return boolean
function Channel:is_closed() end

------------------------------------------------------------------------------------------------------------- runtime

---What a script may know of its limits.  Only to be read; 0 stands for none.
---@class orrery.runtime
---@field execution_limit integer instructions that a call may run without waiting, where they are counted
---@field instructions_used integer
---@field check_interval integer instructions between looks at the limit, where they are counted
---@field strikes integer time-outs in a row that disable a handler or a timer
---@field schedule_limit integer callbacks that may wait
---@field schedule_per_turn integer callbacks that are started in a turn
---@field time_limit number milliseconds that this call may run without waiting
---@field time_used number as far as it is known: it is measured only when a slice has been long
---@field memory_limit integer bytes
---@field memory_used integer
local runtime = {}

---@class orrery.stats
---@field tasks integer
---@field memory_used integer
---@field memory_peak integer
---@field preemptions integer
---@field timeouts integer
---@field scheduled integer callbacks that wait
---@field schedule_errors integer those that failed
---@field schedule_run integer those that have begun
---@field timers_pending integer timers of `loop` that are to fire, or to fire again
---@field timers_fired integer
---@field timers_cancelled integer by scripts, before they fired
---@field timers_rearmed integer started once more before they fired
---@field timers_migrated integer always 0: they stay with the worker of their script
---@field timers_dropped integer still to fire when their script ended, or when they had timed out too often
---@field events_refused integer
---@field events_dropped integer
---@field events_coalesced integer

---@return orrery.stats
function runtime.stats() end

-------------------------------------------------------------------------------------------------------------- values

---Values as strings of bytes, by type, and back.
---@class orrery.values
local values = {}

---Any number of values, nils among them.  Raises, with the path to it, for what cannot be copied: functions, coroutines, userdata,
---tables with metatables, cycles.
---@param ... any
---@return string bytes
function values.encode(...) end

---What was encoded.  Raises, with the place, for any other string.
---@param bytes string
---@return any ...
function values.decode(bytes) end

---------------------------------------------------------------------------------------------------------------- json

---@class orrery.json
---@field null lightuserdata stands for null, also inside of tables
local json = {}

---@class orrery.json.encode_options
---@field indent integer? spaces a level, up to 16; default: all in one line

---Raises, with the path to it, for what JSON has no word for.
---@param value any
---@param options orrery.json.encode_options?
---@return string text
function json.encode(value, options) end

---@class orrery.json.decode_options
---@field floats boolean? every number becomes a float, however large; default: integers stay integers, and more than 64 bits are an error

---Raises, with line and column, for what is no JSON.
---@param text string
---@param options orrery.json.decode_options?
---@return any value
function json.decode(text, options) end

---Marks a table, or a new one, as an array: it is written as one even if it is empty or has holes.
---@generic T: table
---@param list T?
---@return T list
function json.array(list) end

---Whether a table has been marked, by json.array() or because it was read from an empty array.
---@param value any
---@return boolean
function json.is_array(value) end

------------------------------------------------------------------------------------------------------------- testing

---What `orrery test` gives a test file, besides the globals of types/orrery_test.lua.
---@class orrery.testing
local testing = {}

---Whose a thing is: everything that is made carries the number of who made it, and of who made that.
---@alias orrery.owner integer

---What a test has left, or a task of it.
---@class orrery.leak
---@field kind "task" | "timer" | "scheduled callback" | "event handler" | "private loop" | "private loop's timer" | "private loop's event handler"
---@field name string?
---@field state string? of a task; when a timer fires
---@field waits_for string? of a task
---@field at string? where a task stands: file:line
---@field created string? where it was made: file:line
---@field depth integer? of a task, in the tree

---Whether time is virtual, and not the machine's.
---@return boolean
function testing.is_virtual() end

---The time of the runtime's clock.
---@return number
function testing.now() end

---Moves the virtual clock, as if the process had stood still for so long: timers that were due meanwhile are late.
---@param ms number
function testing.advance(ms) end

---What there is of the running test: tasks, the test's own among them, timers that are to fire, callbacks, handlers.
---@param owner orrery.owner? default: the running test
---@return orrery.leak[]
function testing.leaks(owner) end

---The tasks alone, each before its children.
---@param owner orrery.owner?
---@return orrery.leak[]
function testing.tasks(owner) end

---What the running task makes from now on is this owner's; without one, that of a new one.
---@param owner orrery.owner?
---@return orrery.owner
function testing.mark(owner) end

---Takes away an owner's timers, callbacks and handlers, and cancels its tasks.
---@param owner orrery.owner?
function testing.close(owner) end

---Its private loops are not looked at any more.
---@param owner? integer
function testing.forget(owner) end

---Ends an owner's tasks by force.
---@param owner orrery.owner?
function testing.drop(owner) end

---How a task has failed, as text; nil if there is nothing to tell.
---@param task orrery.task
---@return string?
function testing.report(task) end

---Goes on when all that is scheduled now has run, as far as its first wait, and answers how many callbacks that were.
---@async
---@return integer
function testing.flush() end

---Whether a task has failed because something was ended at its deadline.
---@param task orrery.task
---@return boolean
function testing.timed_out(task) end

---From now on the order of ready tasks depends on this alone; 0: first come, first served.
---@param seed integer
function testing.shuffle(seed) end

return orrery
