-- The part of `async` that is written in Lua: waiting for many tasks, timeouts, `with`, wrapping.
-- The chunk's arguments are the module's table and the classes.

local orrery, Task, Semaphore, Mutex, Future = ...
local async = orrery.async
local await, run, group = async.await, async.run, async._group
local plain_wait = Task._wait
local error, pcall, tostring, type = error, pcall, tostring, type -- scripts may change the globals
local format, gsub, huge, math_type, pack = string.format, string.gsub, math.huge, math.type, table.pack
local current, with_timeout = async.current, async.with_timeout
local loop, schedule = orrery.loop, orrery.schedule
local new_timer = loop.new_timer
-- These raise for any other argument.
local check_task, is_completed = Task.status, Future.is_completed
local acquire, lock = Semaphore.acquire, Mutex.lock
local wait_completed, values_of = Future._wait, Future._values
async._group, Task._wait, Future._wait, Future._values = nil, nil, nil, nil

-- Awaits without raising: true and the results, or false and the error.
local function pawait(...)
  return pcall(await, ...)
end

async.pawait = pawait

-- Returns a function that awaits `fn`, whose callback is argument number `argc`.
function async.wrap(argc, fn)
  if math_type(argc) ~= "integer" or argc < 1 then
    error("async.wrap: expected the callback's position, an integer from 1, got " .. tostring(argc), 2)
  end
  if type(fn) ~= "function" then
    error("async.wrap: expected a function, got " .. type(fn), 2)
  end
  return function(...)
    return await(argc, fn, ...)
  end
end

-- Makes a group of the tasks of a list, to wait for them. Errors name the caller of our caller.
local function group_of(method, tasks, more)
  if type(tasks) ~= "table" then
    local got = type(tasks)
    if got == "userdata" and pcall(check_task, tasks) then
      got = more and "several tasks" or "a task"
    elseif got == "function" then
      got = "a function; start it as a task with async.run(fn)"
    end
    local list = got == "several tasks" and "{ t1, t2 }" or got == "a task" and "{ task }"
    error(format("async.%s: expected a list of tasks, got %s%s", method, got,
      list and format("; write async.%s(%s)", method, list) or ""), 3)
  elseif more ~= nil then
    error(format("async.%s: expected one list of tasks, got a second argument, a %s; put all tasks into one list: "
      .. "async.%s({ t1, t2 })", method, type(more) == "userdata" and "task" or type(more), method), 3)
  end
  local ok, waiting = pcall(group, tasks)
  if not ok then
    local reason = type(waiting) == "string" and gsub(waiting, "^[^%s]+:%d+: ", "")
    error(reason and format("async.%s: %s", method, reason) or waiting, 3)
  end
  return waiting
end

local function check_function(what, fn)
  if type(fn) ~= "function" then
    error(format("%s: expected a function, got %s", what, type(fn)), 3)
  end
end

local function check_wait(method, self, ms)
  if type(self) ~= "userdata" then
    error(format("task:%s: expected a task before the colon, got %s", method, type(self)), 3)
  elseif ms ~= nil and type(ms) ~= "number" then
    error(format("task:%s: expected milliseconds, got %s", method, type(ms)), 3)
  end
  check_task(self)
end

local function outcome(index, ok, ...)
  if ok then
    return index, nil, ...
  end
  return index, (...)
end

-- Iterates in the order in which the tasks finish: index, error or nil, results.
function async.iter(tasks, more)
  local waiting = group_of("iter", tasks, more)
  local function next_done()
    local index, task = waiting:next()
    if index then
      return outcome(index, pawait(task))
    end
  end
  return next_done, nil, nil, waiting -- closed if the loop is left early
end

-- Returns the index of the first task that is done, and its results; raises its error.
function async.await_any(tasks, more)
  local waiting <close> = group_of("await_any", tasks, more)
  local index, task = waiting:next()
  if not index then
    error("async.await_any: the list is empty: there is nothing to wait for", 2)
  end
  return index, await(task)
end

-- Returns a list of the packed results of each task, in the order of the list. Raises the first
-- error at once.
function async.await_all(tasks, more)
  local waiting <close> = group_of("await_all", tasks, more)
  local results = {}
  for index, task in waiting.next, waiting do
    results[index] = pack(await(task))
  end
  return results
end

-- The caller of async.timeout gets "timeout". So an error of the cleanup goes where the errors of
-- tasks go that nobody awaits.
local function report_cleanup(task, ok, err)
  if not ok and err ~= "closed" then
    local name = task.name
    run({ name = name and "cleanup of " .. name or "cleanup after a timeout", detached = true }, error, err, 0)
  end
end

-- Awaits a task. After `ms` it closes the task, waits for its cleanup, and raises "timeout".
function async.timeout(ms, task)
  if type(ms) ~= "number" then
    local swapped = type(task) == "number" and "; write async.timeout(ms, task)" or ""
    error(format("async.timeout: expected milliseconds, got %s%s", type(ms), swapped), 2)
  end
  if type(task) ~= "userdata" or not pcall(check_task, task) then
    error(format("async.timeout: expected a task, got %s", type(task)), 2)
  end
  local function finish(ok, ...)
    if ok then
      return ...
    end
    if ... == "timeout" and task:status() ~= "completed" then
      task:close()
      report_cleanup(task, pawait(task))
    end
    error((...), 0)
  end
  return finish(pcall(with_timeout, ms, await, task))
end

-- Inside a task these suspend it; outside, they drive the loop.

function Task:pwait(ms)
  check_wait("pwait", self, ms)
  if not current() then
    return plain_wait(self, ms)
  end
  if not ms then
    return pawait(self)
  end
  return pcall(with_timeout, ms, await, self)
end

local function raise_or_return(ok, ...)
  if ok then
    return ...
  end
  error((...), 0)
end

function Task:wait(ms)
  check_wait("wait", self, ms)
  if current() and not ms then
    return await(self)
  end
  return raise_or_return(self:pwait(ms))
end

-- The permit or the lock is released when the block ends, however it ends.

function Semaphore:with(fn, ...)
  check_function("semaphore:with", fn)
  acquire(self)
  local permit <close> = self -- luacheck: ignore permit
  return fn(...)
end

function Mutex:with(fn, ...)
  check_function("mutex:with", fn)
  lock(self)
  local lock <close> = self -- luacheck: ignore lock
  return fn(...)
end

-- future:wait() awaits the future. future:wait(callback) calls back when it is completed, with the
-- error or nil, and the results. A task that is closed while it waits raises "closed", as in every
-- wait, and does not call back.
function Future:wait(callback)
  local completed = is_completed(self)
  if not callback then
    return await(self)
  end
  local function wait_and_call()
    wait_completed(self)
    callback(values_of(self))
  end
  if completed then
    callback(values_of(self))
  elseif current() then
    wait_and_call()
  else
    run({ name = "future callback", detached = true }, wait_and_call)
  end
end

-- Older names. async._queue is written in C: its queues take nil as an item.
async._future, async._event = async.future, async.event

-- Short forms of timers.

local function check_timer(method, ms, fn)
  if type(ms) ~= "number" then
    local swapped = type(ms) == "function" and type(fn) == "number"
    local order = swapped and format("; write loop.%s(%s)", method, method == "defer" and "fn, ms" or "ms, fn") or ""
    error(format("loop.%s: expected milliseconds, got %s%s", method, type(ms), order), 3)
  elseif not (ms >= 0 and ms < huge) then
    error(format("loop.%s: expected milliseconds, at least 0, got %s", method, ms), 3)
  elseif type(fn) ~= "function" then
    error(format("loop.%s: expected a function, got %s", method, type(fn)), 3)
  end
end

local function start_once(ms, fn)
  local timer = new_timer()
  return timer:start(ms, 0, function()
    timer:close()
    fn()
  end)
end

function loop.set_timeout(ms, fn)
  check_timer("set_timeout", ms, fn)
  return start_once(ms, fn)
end

function loop.defer(fn, ms)
  check_timer("defer", ms, fn)
  return start_once(ms, fn)
end

-- An interval of 0 fires once a millisecond: for a timer, a repeat of 0 means none.
function loop.set_interval(ms, fn)
  check_timer("set_interval", ms, fn)
  ms = ms * 1e6 < 1 and 1 or ms
  return new_timer():start(ms, ms, fn)
end

function orrery.schedule_wrap(fn)
  check_function("schedule_wrap", fn)
  return function(...)
    return schedule(fn, ...)
  end
end
