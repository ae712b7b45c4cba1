-- What is better said in Lua: waiting for many tasks, timeouts, `with`, wrapping.
-- Gets the module's table and the classes.

local orrery, Task, Semaphore, Mutex, Future = ...
local async = orrery.async
local await, run, group = async.await, async.run, async._group
local plain_wait = Task._wait
local error, pcall, tostring, type = error, pcall, tostring, type -- scripts may change the globals
local format, gsub, huge, math_type, pack = string.format, string.gsub, math.huge, math.type, table.pack
local current, with_timeout = async.current, async.with_timeout
local loop, schedule = orrery.loop, orrery.schedule
local new_timer = loop.new_timer
local check_task, is_completed = Task.status, Future.is_completed -- these raise if they are given anything else
local acquire, lock = Semaphore.acquire, Mutex.lock
local wait_completed, values_of = Future._wait, Future._values
async._group, Task._wait, Future._wait, Future._values = nil, nil, nil, nil

-- Awaiting without raising: true and the results, or false and the error.
local function pawait(...)
  return pcall(await, ...)
end

async.pawait = pawait

-- The position of the callback is fixed once, for a function in the callback style.
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

-- The tasks of a list, to be waited for; what is wrong with it is told to our caller's.
local function group_of(method, tasks)
  if type(tasks) ~= "table" then
    error(format("async.%s: expected a list of tasks, got %s", method, type(tasks)), 3)
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

-- In the order in which they are done: index, error or nil, results.
function async.iter(tasks)
  local waiting = group_of("iter", tasks)
  local function next_done()
    local index, task = waiting:next()
    if index then
      return outcome(index, pawait(task))
    end
  end
  return next_done, nil, nil, waiting -- which is closed if the loop is broken off
end

-- The index of the first that is done, and its results; its error is raised.
function async.await_any(tasks)
  local waiting <close> = group_of("await_any", tasks)
  local index, task = waiting:next()
  if not index then
    error("async.await_any: the list is empty: there is nothing to wait for", 2)
  end
  return index, await(task)
end

-- A list of what each has come to, packed, in the order of the tasks.  The first error is raised at once.
function async.await_all(tasks)
  local waiting <close> = group_of("await_all", tasks)
  local results = {}
  for index, task in waiting.next, waiting do
    results[index] = pack(await(task))
  end
  return results
end

-- Awaits a task for at most so long; then closes it, waits for its cleanup, and raises "timeout".
function async.timeout(ms, task)
  if type(task) ~= "userdata" or not pcall(check_task, task) then
    error(format("async.timeout: expected a task, got %s", type(task)), 2)
  end
  local function finish(ok, ...)
    if ok then
      return ...
    end
    if ... == "timeout" and task:status() ~= "completed" then
      task:close()
      pawait(task)
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

-- The permit, or the lock, is given back when the block ends, however it ends.

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

-- future:wait() awaits it; future:wait(callback) calls back when it is completed, with error or nil and the results.
-- A task that is closed while it waits for that raises "closed", as in every wait, and does not call back.
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

-- Names of old.
async._future, async._event, async._queue = async.future, async.event, async.queue

-- Timers, shorter.

local function check_timer(method, ms, fn)
  if type(ms) ~= "number" then
    error(format("loop.%s: expected milliseconds, got %s", method, type(ms)), 3)
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

-- Of 0, as often as once a millisecond: to a timer, a repeat of 0 is none.
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
