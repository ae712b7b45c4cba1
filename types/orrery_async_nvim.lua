---@meta orrery.async_nvim

-- `require "orrery.async_nvim"`, for editors that know LuaLS: the module of async.nvim, by name and
-- behaviour. docs/coming-from.md says how it differs from `orrery.async`. Nothing here runs.

---@class orrery.async_nvim
local async_nvim = {}

---Something that is closed when the wait ends in which a function has returned it.
---@class orrery.async_nvim.closable
---@field close fun(self, callback: fun()) calls back when it is closed
---@field is_closing? fun(self): boolean if that returns true, it is not closed again

---@class orrery.async_nvim.options
---@field name? string
---@field detached? boolean it has no parent

---A task without a parent fails in silence, unless somebody waits for it.
---@class orrery.async_nvim.task
---@field name? string
local Task = {}

---Starts a task. It runs at once, up to its first wait; then the caller continues.
---@param func fun(...): ...
---@param ... any its arguments
---@return orrery.async_nvim.task
---@overload fun(name: string, func: fun(...), ...): orrery.async_nvim.task
---@overload fun(opts: orrery.async_nvim.options, func: fun(...), ...): orrery.async_nvim.task
function async_nvim.run(func, ...) end

---Waits for a task, and returns its results or raises its error. Or calls a function with a
---callback, and returns the callback's arguments.
---@async
---@param what orrery.async_nvim.task | fun(callback: fun(...)): orrery.async_nvim.closable?
---@return any ...
---@overload async fun(argc: integer, func: function, ...): ...
function async_nvim.await(what) end

---Waits as await does; returns true and the results, or false and the error. It does not catch what
---concerns the task that calls it: that it is closed, or that a child has failed.
---@async
---@return boolean ok
---@return any ...
function async_nvim.pawait(...) end

---Calls a function as pcall does, but does not catch that the task is closed, or that a child of it
---has failed.
---@param fn fun(...): ...
---@param ... any
---@return boolean ok
---@return any ...
function async_nvim.pcall(fn, ...) end

---Returns a function that awaits `func`, whose callback is argument number `argc`.
---@param argc integer
---@param func function
---@return fun(...): ...
function async_nvim.wrap(argc, func) end

---Iterates over tasks in the order in which they are done: index and results. A task's error is
---raised, with the prefix `iter error[index:N]: `.
---@async
---@param tasks orrery.async_nvim.task[]
---@return fun(): integer?, ...
function async_nvim.iter(tasks) end

---Returns the packed results of each task, by index; raises as iter does.
---@async
---@param tasks orrery.async_nvim.task[]
---@return table<integer, table>
function async_nvim.await_all(tasks) end

---Returns the index and the results of the first task that is done; raises as iter does.
---@async
---@param tasks orrery.async_nvim.task[]
---@return integer? index
---@return any ...
function async_nvim.await_any(tasks) end

---@async
---@param duration number milliseconds
function async_nvim.sleep(duration) end

---Lets everything run that is scheduled.
---@async
function async_nvim.checkpoint() end

---Awaits a task. After `duration` it closes the task, waits for its cleanup, and raises "timeout".
---@async
---@param duration number milliseconds
---@param task orrery.async_nvim.task
---@return any ...
function async_nvim.timeout(duration, task) end

---Whether the running task is being closed.
---@return boolean
function async_nvim.is_closing() end

---All tasks as a tree: name, place of creation and state of each.
---@return string
function async_nvim.inspect_tree() end

---@class orrery.async_nvim.surroundings
---@field wait? fun(ms: number, is_done: fun(): boolean): boolean
---@field schedule? fun(fn: fun())
---@field new_timer? fun(): table

---Replaces what the module waits with, schedules with and makes timers with.
---@param opts orrery.async_nvim.surroundings
function async_nvim.init(opts) end

---@param opts table
function async_nvim.config(opts) end

---@return boolean
function Task:completed() end

---@return "running" | "normal" | "awaiting" | "completed"
function Task:status() end

---Waits for the task, in a task or in plain code, and raises its error, or "timeout". With a
---callback it does not wait: that is called with the error or nil, and the results.
---@param callback_or_timeout? number | fun(err: any, ...: any)
---@return any ...
function Task:wait(callback_or_timeout) end

---@param timeout? number milliseconds
---@return boolean ok
---@return any ...
function Task:pwait(timeout) end

---@param callback fun(err: any, ...: any)
function Task:on_complete(callback) end

---Closes the task and all tasks below it.
---@param callback? fun() called when it is done
function Task:close(callback) end

---Gives the task its results, and ends it.
---@param ... any
function Task:complete(...) end

---Takes the task away from its parent.
---@return orrery.async_nvim.task self
function Task:detach() end

---Lets the task's error be reported, if it has one.
---@return orrery.async_nvim.task self
function Task:raise_on_error() end

---The stacks of the tasks that it waits for, and its own.
---@param msg? string
---@param level? integer
---@return string
function Task:traceback(msg, level) end

---@class orrery.async_nvim.future
local Future = {}

---@return orrery.async_nvim.future
function async_nvim.future() end

---@return boolean
function Future:completed() end

---Returns true and the values, or false and the error.
---@return boolean ok
---@return any ...
function Future:result() end

---@param callback fun(err: any, ...: any)
function Future:wait(callback) end

---@param callback fun(err: any, ...: any)
function Future:on_complete(callback) end

---@param err? any
---@param ... any
function Future:complete(err, ...) end

---@class orrery.async_nvim.event
local Event = {}

---@return orrery.async_nvim.event
function async_nvim.event() end

---Wakes all who wait, or the first `max_woken`.
---@param max_woken? integer
function Event:set(max_woken) end

---@async
function Event:wait() end

function Event:clear() end

---@class orrery.async_nvim.queue
local Queue = {}

---@param max_size? integer
---@return orrery.async_nvim.queue
function async_nvim.queue(max_size) end

---@return integer
function Queue:size() end

---@return integer?
function Queue:max_size() end

---@async
---@param value any
function Queue:put(value) end

---@async
---@return any
function Queue:get() end

---@param value any
function Queue:put_nowait(value) end

---@return any
function Queue:get_nowait() end

---@class orrery.async_nvim.semaphore
local Semaphore = {}

---@param permits? integer default: 1
---@return orrery.async_nvim.semaphore
function async_nvim.semaphore(permits) end

---@async
function Semaphore:acquire() end

function Semaphore:release() end

---@async
---@param fn fun(): ...
---@return any ...
function Semaphore:with(fn) end

return async_nvim
