-- `require "orrery.async_nvim"`: the module of async.nvim, by name and behaviour, for plugins that
-- were written for it. `orrery.async` is like it, and differs where we think that it should;
-- docs/coming-from.md lists the differences. The chunk's arguments are the table `orrery`, and the
-- chunks of the other parts: lua/async_nvim_futures.lua, _text.lua and _sync.lua.
--
-- A task of this module is a coroutine and a table. Whatever continues it (a callback, the end of
-- another task, close()) continues it at once, before it goes on itself: the order in which things
-- happen depends on that. Each stretch, from one wait to the next, runs in a task of `orrery.async`
-- of its own, its carrier. So the code may wait with the functions of `orrery`, too: then the
-- carrier is suspended, and nothing else. Deep nesting does not grow the C stack, since starting a
-- carrier does not.
--
-- Invariants of a task:
--   * It is in its parent's list of children, or in `tops`, until it is completed.
--   * `_wait` is set exactly while it is parked in await(), or the resource of that wait is being
--     closed. A wait is settled once: by its callback, by a failure of a child, or by close().
--   * `_carrier` is set exactly while its coroutine runs, or waits inside a function of `orrery`.
--   * `_outcome` is set when its body is over. It is completed when it has no children any more.
--   * Its body ends in one way only: body_over().
--
-- When memory runs out, whoever asked for it gets the error, and nobody waits for ever: settling a
-- wait, continuing a task, ending it and closing it allocate nothing that they cannot do without.
-- So the fields that they set exist from the start.

local orrery, futures_part, text_part, sync_part = ...
local async, loop, schedule = orrery.async, orrery.loop, orrery.schedule
if not (async and loop and schedule) then
  error("orrery.async_nvim needs the modules async, loop and schedule, and the host has not given all of them", 0)
end

-- Scripts may change the globals.
local error, getmetatable, pcall, select, setmetatable = error, getmetatable, pcall, select, setmetatable
local tostring, type, xpcall = tostring, type, xpcall
local create, resume, running, status = coroutine.create, coroutine.resume, coroutine.running, coroutine.status
local close_coroutine, yield = coroutine.close, coroutine.yield
local match, pack, unpack = string.match, table.pack, table.unpack
local math_type, forever = math.type, math.maxinteger
local traceback = debug and debug.traceback or function() return "" end

local carry, carrier, await_ours, new_future = async.run, async.current, async.await, async.future
local move_on_after = async.move_on_after

local base = futures_part()
local is_callable, validate, error_value = base.is_callable, base.validate, base.error_value
local new_list, append, remove, is_empty, take_first =
  base.new_list, base.append, base.remove, base.is_empty, base.take_first
local when_completed, call_back = base.when_completed, base.call_back

local M = { _future = base.new_future }

-- The texts are those of async.nvim, because plugins compare them.
local CLOSED, TIMEOUT = "closed", "timeout"
local NOT_IN_TASK = "Not in async context"
local UNEXPECTED_YIELD, UNEXPECTED_RESUME = "Unexpected coroutine.yield()", "Unexpected coroutine.resume()"
local COMPLETED = "Task is already completing or completed"

-- What passes between a task's coroutine and its carrier; nobody else has them.
local PARKED, CONTINUE, OVER = {}, {}, {}

local CARRIER = { name = "async_nvim", detached = true }

-- What the module uses of its surroundings: init() replaces it.
local surroundings = { new_timer = loop.new_timer, schedule = schedule }

---------------------------------------------------------------------------------------------- tasks

local Task = {}
Task.__index = Task

local by_coroutine = setmetatable({}, { __mode = "k" })
local tops, made = setmetatable({}, { __mode = "k" }), 0 -- tasks without a parent -> their numbers

local function is_task(value)
  return type(value) == "table" and getmetatable(value) == Task
end

-- The task whose code runs, or nil.
local function current()
  return by_coroutine[running()]
end

local function check_current()
  return current() or error(NOT_IN_TASK, 0)
end

local function is_closing(task)
  return task._closing or task._values ~= nil
end

local go_on, complete_if_childless -- functions that need each other

-------------------------------------------------------------------------------------------- closing

local function get(value, name)
  return value[name]
end

-- A field of a value, which may refuse to be asked for it.
local function field(value, name)
  local kind = type(value)
  if kind == "table" then
    return value[name]
  elseif kind == "userdata" then
    local ok, found = pcall(get, value, name)
    return ok and found or nil
  end
end

local probe = loop.new_timer()
local close_timer, timer_is_closing = probe.close, probe.is_closing
probe:close()

-- A timer of ours has no callback to wait for, but as with any other handle, its owner hears of the
-- end in a later turn. If that cannot be scheduled, it hears of it now.
local function close_our_timer(timer, over)
  close_timer(timer)
  if not pcall(schedule, over) then
    over()
  end
end

local function begin_closing(resource, over)
  if type(resource) == "userdata" and pcall(timer_is_closing, resource) then
    close_our_timer(resource, over)
  elseif type(resource) == "userdata" and field(resource, "on_complete") then -- a task of ours
    resource:close()
    resource:on_complete(over)
  else
    resource:close(over)
  end
end

local function needs_closing(resource)
  local is_closing_method = field(resource, "is_closing")
  return not (is_closing_method and is_closing_method(resource))
end

-- Closes what the function of a wait has returned. Returns whether it is closed; else wait.over()
-- will be called.
local function close_resource(wait)
  local resource = wait.resource
  wait.resource = nil
  if resource == nil then
    return true
  elseif wait.quietly then -- a timer of sleep()
    close_timer(resource)
    return true
  end
  local ok, needs = pcall(needs_closing, resource)
  if ok and needs then
    wait.closing = true
    ok, needs = pcall(begin_closing, resource, wait.over)
    local closed = not wait.closing
    wait.closing = ok and not closed and "later"
    if ok then
      return closed
    end
  elseif ok then
    return true
  end
  wait.failed, wait.err = true, error_value(needs)
  return true
end

-- A function of its own, so that the resource is on no stack while the task waits for its end.
-- over() may be called at once, before the task is parked, and more than once.
local function keep_resource(wait, value)
  if field(value, "close") == nil then
    return
  end
  wait.over = function()
    local closing = wait.closing
    wait.closing = false
    if closing == "later" and wait.task._wait == wait then
      go_on(wait.task, CONTINUE)
    end
  end
  wait.resource = value
end

-------------------------------------------------------------------------------------------- waiting

-- The wait is settled, and its task is parked: closes the resource, and continues the task.
local function wake(wait)
  if close_resource(wait) then
    go_on(wait.task, CONTINUE)
  end
end

-- Only the first call of a callback counts.
local function settle(wait, ...)
  if wait.settled then
    return
  end
  local ok, values = pcall(pack, ...)
  wait.settled, wait.failed, wait.values, wait.err = true, not ok, values, values
  if wait.parked then
    wake(wait)
  end
end

-- Raises what the task has to hear of at its next wait: that it is closed, or a child's failure.
local function raise_pending(task)
  if is_closing(task) then
    error(CLOSED, 0)
  end
  local child = task._failed and take_first(task._failed)
  if child then
    task._child_error = child._error
    error(child._error, 0)
  end
end

-- The task waits for a child, and so hears of its failure.
local function forget_failure(task, child)
  if child._parent == task and child._future._result then
    remove(child)
  end
end

local function forget_target(wait)
  if wait.key then
    wait.target._future._callbacks[wait.key] = nil
  end
end

-- Suspends the coroutine. Anybody could resume it: the first value shows who does.
local function park(task, wait)
  wait.parked = true
  task._wait = wait
  if yield(PARKED) ~= CONTINUE then
    task._wait, task._strayed = nil, true
    wait.settled = true
    forget_target(wait)
    close_resource(wait)
    error(UNEXPECTED_RESUME, 0)
  end
  task._wait = nil
end

-- Waits until the callback is called that start(callback, ...) gets, or until the task `target` is
-- done; one of the two may be nil. Returns the arguments of the callback, packed. What `start`
-- returns is closed when the wait is over.
local function wait_for(task, target, quietly, start, ...)
  raise_pending(task)
  local wait = {
    task = task, target = target, key = nil, quietly = quietly, resource = nil, over = nil, closing = false,
    settled = false, parked = false, values = nil, failed = false, err = nil,
  }
  local function callback(...)
    settle(wait, ...)
  end
  if target then
    wait.key = when_completed(target._future, callback)
  end
  if start then
    keep_resource(wait, start(callback, ...))
  end
  if not wait.settled or not close_resource(wait) then
    park(task, wait)
  end
  if wait.failed then
    error(wait.err, 0)
  end
  return wait.values
end

-- Ends the wait of a parked task with an error.
local function interrupt(task, err)
  local wait = task._wait
  if wait and not wait.settled then
    wait.settled, wait.failed, wait.err = true, true, err
    forget_target(wait)
    wake(wait)
    return true
  end
end

-- Calls fn with the arguments and the callback at position `argc` among them.
local function call_with_callback(callback, argc, fn, ...)
  local count = select("#", ...)
  if argc == 1 then
    return fn(callback, ...)
  elseif argc == count + 1 and count == 1 then
    return fn(..., callback)
  end
  local arguments = pack(...)
  for i = count, argc, -1 do
    arguments[i + 1] = arguments[i]
  end
  arguments[argc] = callback
  return fn(unpack(arguments, 1, count < argc and argc or count + 1))
end

-- Waits for a task: returns its error or nil, and its results, packed.
local function result_of(task, target)
  if task == target then
    error("a task cannot await itself", 3)
  end
  forget_failure(task, target)
  local result = target._future._result
  if result then
    raise_pending(task)
  else
    result = wait_for(task, target, false)
  end
  task._awaited = result[1] ~= nil and target or nil
  return result
end

-- Returns the values of what is awaited, packed from the index that comes first.
local function await_any_kind(task, ...)
  local first = ...
  if is_task(first) then
    local result = result_of(task, first)
    if result[1] ~= nil then
      return nil, result
    end
    return 2, result
  elseif type(first) == "number" and is_callable((select(2, ...))) and math_type(first) == "integer" and first > 0 then
    return 1, wait_for(task, nil, false, call_with_callback, ...)
  elseif is_callable(first) then
    return 1, wait_for(task, nil, false, call_with_callback, 1, first)
  end
  error("Invalid arguments, expected Task or (argc, func) got: " .. tostring(first), 3)
end

function M.await(...)
  local from, values = await_any_kind(check_current(), ...)
  if not from then
    error(values[1], 0)
  end
  return unpack(values, from, values.n)
end

function M.wrap(argc, func)
  validate("argc", argc, "number")
  validate("func", func, "callable")
  return function(...)
    return M.await(argc, func, ...)
  end
end

-------------------------------------------------------------------------------------------- parents

-- Closing a child may remove it from the list, and others too. So each child that was visited goes
-- to the end of the list, with the number of this visit.
local visits = 0

local function close_children(task)
  local children = task._children
  if not children then
    return
  end
  visits = visits + 1
  local visit = visits
  local child = children._behind
  while child ~= children and child._visit ~= visit do
    child._visit = visit
    remove(child)
    append(children, child)
    child:close()
    child = children._behind
  end
end

-- A table or a userdata goes up as it is: as text it would lose its fields.
local function child_error(err)
  local kind = type(err)
  return (kind == "table" or kind == "userdata") and err or "child error: " .. tostring(err)
end

-- Outcomes are not changed: they may be these.
local CLOSED_OUTCOME, NO_MEMORY = { n = 1, CLOSED }, { n = 1, "not enough memory" }

local function failure(err)
  return { n = 1, err }
end

local function failed_with(err)
  local ok, outcome = pcall(failure, error_value(err))
  return ok and outcome or NO_MEMORY
end

-- A child has failed. Its parent hears of it at once if it waits, or else at its next wait.
local function tell_parent(parent, child, err)
  local wait, outcome = parent._wait, parent._outcome
  if err == nil or err == CLOSED and child._closing or wait and wait.target == child then
    return
  end
  local ok, text = pcall(child_error, err)
  err = ok and text or err
  if outcome then
    if outcome[1] == nil and not parent._values then
      parent._outcome = failed_with(err)
      close_children(parent)
    end
  elseif not is_closing(parent) then
    parent._child_error = err
    if not interrupt(parent, err) then
      child._error = err
      append(parent._failed, child)
    end
  end
end

-- Completes a task, and each parent above it that has only waited for that.
local function complete(task)
  local failed, err = false, nil
  repeat
    local parent, outcome = task._parent, task._outcome
    task._coroutine = nil
    tops[task] = nil
    remove(task)
    task._future._result = outcome
    if parent then
      tell_parent(parent, task, outcome[1])
    end
    local callback_failed, problem = call_back(task._future)
    if callback_failed and not failed then
      failed, err = true, problem
    end
    task = parent
  until not (task and task._outcome and is_empty(task._children)) or task._future._result
  if failed then
    error(err, 0)
  end
end

function complete_if_childless(task)
  if task._outcome and not task._future._result and (not task._children or is_empty(task._children)) then
    complete(task)
  end
end

-- The body has returned, or raised an error. A closed task ends as closed, unless it has an error
-- of its own.
local function body_over(task, ok, ...)
  if task._outcome then
    return
  end
  local child = task._failed and take_first(task._failed)
  local outcome
  if task._values then
    outcome = task._values
  elseif not ok then
    outcome = failed_with((...))
  elseif task._closing then
    outcome = CLOSED_OUTCOME
  elseif child then
    outcome = failed_with(child._error)
  else
    ok, outcome = pcall(pack, nil, ...)
    outcome = ok and outcome or NO_MEMORY
  end
  task._outcome, task._failed = outcome, nil
  if outcome[1] ~= nil or task._values then
    close_children(task)
  end
  complete_if_childless(task)
end

-------------------------------------------------------------------------------------------- running

-- The message handler of a body keeps the stack, for task:traceback().
local function keep_stack(err)
  local task = current()
  if task and err ~= CLOSED then
    local ok, stack = pcall(traceback, "", 3)
    task._stack, task._thread = ok and stack or "", tostring(task._coroutine)
  end
  return err
end

-- If somebody else has resumed the coroutine, no carrier sees its end.
local function end_strayed(task, ok, ...)
  body_over(task, ok, ...)
  if not ok then
    error(error_value((...)), 0)
  end
  return OVER
end

local function body_returned(task, ok, ...)
  if task._strayed then
    return end_strayed(task, ok, ...)
  end
  return OVER, ok, ...
end

local function body(task, fn, ...)
  return body_returned(task, xpcall(fn, keep_stack, ...))
end

-- The coroutine has yielded, returned or failed.
local function stepped(task, ok, sign, ...)
  task._carrier = nil
  if ok and sign == OVER then
    body_over(task, ...)
  elseif not ok then
    body_over(task, false, sign)
  elseif sign ~= PARKED then
    local co = task._coroutine
    body_over(task, false, UNEXPECTED_YIELD)
    close_coroutine(co)
  end
end

local function step(task, ...)
  task._carrier, task._taken = carrier() or CARRIER, true
  stepped(task, resume(task._coroutine, ...))
end

-- A carrier was ended from outside, by its deadline. What it carried is lost.
local function carrier_over(task, ended)
  if task._carrier == ended then
    task._carrier = nil
    body_over(task, false, ended:errors()[1])
  end
end

local function watch(task, started)
  if started:status() == "completed" then
    carrier_over(task, started)
  else -- it waits in a function of `orrery`
    started:on_complete(function()
      carrier_over(task, started)
    end)
  end
end

-- Continues a parked task. Where the limits allow no carrier, or it fails before it takes the task,
-- the task goes on without.
function go_on(task, ...)
  local co = task._coroutine
  if not co or status(co) ~= "suspended" then
    return -- somebody else has resumed it
  end
  task._taken = false
  local ok, started = pcall(carry, CARRIER, step, task, ...)
  if not ok or not task._taken then
    step(task, ...)
  elseif task._carrier == started then
    watch(task, started)
  end
end

local function start(place, name, detached, fn, ...)
  local parent = not detached and current() or nil
  if parent and parent._future._result then
    parent = nil -- its coroutine runs on, after an unexpected coroutine.resume()
  end
  local co = create(body)
  local task = setmetatable({
    name = name, _place = place, _coroutine = co, _future = M._future(), _parent = parent, _closing = false,
    _wait = nil, _carrier = nil, _taken = false, _outcome = nil, _values = nil, _error = nil, _child_error = nil,
    _awaited = nil, _stack = nil, _thread = nil, _children = nil, _failed = nil, _before = nil, _behind = nil,
    _visit = 0,
  }, Task)
  by_coroutine[co] = task
  if parent then
    parent._failed = parent._failed or new_list()
    parent._children = parent._children or new_list()
    append(parent._children, task)
    task._closing = is_closing(parent)
  else
    made = made + 1
    tops[task] = made
  end
  local ok, started = pcall(carry, CARRIER, step, task, task, fn, ...)
  if not ok or not task._taken then
    remove(task)
    tops[task] = nil
    error(ok and started:errors()[1] or started, 3)
  elseif task._carrier == started then
    watch(task, started)
  end
  return task
end

function M.run(...)
  local _, place = pcall(error, "", 3) -- "file:line: "
  place = match(place, "^(.*): $") or "?"
  local first, func = ...
  if is_callable(first) then
    return start(place, nil, false, ...)
  elseif type(first) == "table" then
    validate("opts.name", first.name, "string", true)
    validate("func", func, "callable")
    return start(place, first.name, first.detached, select(2, ...))
  elseif type(first) == "string" then
    validate("func", func, "callable")
    return start(place, first, false, select(2, ...))
  end
  validate("func", first, "callable")
end

function M.is_closing()
  local task = current()
  return task ~= nil and is_closing(task) or false
end

-------------------------------------------------------------------------------------------- methods

function Task:completed()
  return self._future._result ~= nil
end

function Task:status()
  local co, working = self._coroutine, self._carrier
  if self._future._result then
    return "completed"
  elseif self._outcome or self._wait or not working then
    return "awaiting"
  elseif co == running() then
    return "running"
  end
  return working ~= CARRIER and working:status() == "awaiting" and "awaiting" or "normal"
end

-- Closes the task and all tasks below it. Children end before it does.
function Task:close(callback)
  validate("callback", callback, "callable", true)
  if not self._future._result and not is_closing(self) then
    self._closing = true
    if self._outcome and self._outcome[1] == nil then
      self._outcome = CLOSED_OUTCOME -- it only waits for its children
    end
    close_children(self)
    local wait, working = self._wait, self._carrier
    local target = wait and wait.target
    local ends_with_child = target and target._parent == self and not target._future._result
    if not ends_with_child and not interrupt(self, CLOSED) and working and working ~= CARRIER then
      working:close()
    end
  end
  if callback then
    when_completed(self._future, function()
      callback()
    end)
  end
end

function Task:complete(...)
  local outcome, working = self._outcome, self._carrier
  if is_closing(self) or outcome and (outcome[1] ~= nil or self._future._result) then
    error(COMPLETED, 2)
  end
  self._values = pack(nil, ...)
  if outcome then -- it only waits for its children
    self._outcome = self._values
    close_children(self)
  elseif not interrupt(self, CLOSED) and working and working ~= CARRIER then
    working:close()
  end
end

function Task:detach()
  local parent = self._parent
  if parent and not self._future._result then
    remove(self)
    made = made + 1
    self._parent, tops[self] = nil, made
    complete_if_childless(parent)
  end
  return self
end

-- Drives the loop, or suspends the caller's task, until the task is done; false after `ms`.
local function block(task, ms)
  local future = task._future
  if surroundings.wait then
    return surroundings.wait(ms or forever, function()
      return future._result ~= nil
    end)
  end
  local done = new_future()
  local key = when_completed(future, function()
    done:complete(nil)
  end)
  local ok, err
  if not carrier() then
    local waiting = carry(CARRIER, await_ours, done)
    ok, err = pcall(waiting.pwait, waiting, ms)
    waiting:close()
  elseif ms then
    ok, err = pcall(move_on_after, ms, await_ours, done)
  else
    ok, err = pcall(await_ours, done)
  end
  if key then
    future._callbacks[key] = nil
  end
  if not ok then
    error(err, 0)
  end
  return future._result ~= nil
end

function Task:wait(callback_or_timeout)
  if is_callable(callback_or_timeout) then
    when_completed(self._future, callback_or_timeout)
    return
  end
  validate("callback_or_timeout", callback_or_timeout, "number", true)
  if not self._future._result and not block(self, callback_or_timeout) then
    error(TIMEOUT, 0)
  end
  local result, task = self._future._result, current()
  if task then
    forget_failure(task, self)
  end
  if result[1] ~= nil then
    error(result[1], 0)
  end
  return unpack(result, 2, result.n)
end

function Task:pwait(timeout)
  validate("timeout", timeout, "number", true)
  return pcall(self.wait, self, timeout)
end

function Task:on_complete(callback)
  validate("callback", callback, "callable")
  when_completed(self._future, callback)
end

-- A task that nobody waits for fails in silence; this lets its error be reported.
function Task:raise_on_error()
  when_completed(self._future, function(err)
    if err ~= nil and not (err == CLOSED and self._closing) then
      carry({ name = self.name or "async_nvim", detached = true }, error, self:traceback(err), 0)
    end
  end)
  return self
end

----------------------------------------------------------------------------------- the surroundings

-- Replaces what the module waits, schedules and measures time with.
function M.init(opts)
  validate("opts", opts, "table")
  validate("opts.wait", opts.wait, "callable", true)
  validate("opts.schedule", opts.schedule, "callable", true)
  validate("opts.new_timer", opts.new_timer, "callable", true)
  surroundings = {
    wait = opts.wait or surroundings.wait,
    schedule = opts.schedule or surroundings.schedule,
    new_timer = opts.new_timer or surroundings.new_timer,
  }
end

------------------------------------------------------------------------------------------- the rest

text_part(M, Task, tops, validate)
sync_part(M, base, {
  current = current,
  check_current = check_current,
  is_task = is_task,
  is_closing = is_closing,
  wait_for = wait_for,
  forget_failure = forget_failure,
  new_timer = function()
    return surroundings.new_timer()
  end,
  is_our_timer = function()
    return surroundings.new_timer == loop.new_timer
  end,
  schedule = function(callback)
    surroundings.schedule(callback)
  end,
})

-- Names of other versions.
M.config = M.init
M.future, M.event, M.queue = M._future, M._event, M._queue
M.inspect_tree = M._inspect_tree

return M
