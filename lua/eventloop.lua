-- `eventloop`: private loops. The chunk's arguments are the module's table, the class of tasks, and
-- a private table:
--   where()   the position of the calling script if it is to be remembered, else nil
--   owner()   the owner of the calling task while a test runner checks for leaks, else nil
--
-- A private loop is a scope on the one real loop. While it runs, one task, the server, is in that
-- scope. Timers and callbacks are children of the server, whoever asked for them. So a request goes
-- into `fresh` or `queued` and sets the event `changed`, which wakes the server. What has not begun
-- when the loop stops is kept for the next run, only in the loop's own lists: a loop that does not
-- run costs the real loop nothing.

local orrery, Task, private = ...
local async, loop = orrery.async, orrery.loop
local run, scope, sleep, current, is_closing = async.run, async.scope, async.sleep, async.current, async.is_closing
local shield, supervise, checkpoint, new_event = async.shield, async.supervise, async.checkpoint, async.event
local hrtime = loop.hrtime
local where, owner = private.where, private.owner
local close, errors, pwait = Task.close, Task.errors, Task.pwait
local error, ipairs, next, pairs, pcall, select = error, ipairs, next, pairs, pcall, select
local setmetatable, type = setmetatable, type
local format, floor, huge, min, max, sort = string.format, math.floor, math.huge, math.min, math.max, table.sort
local pack, unpack = table.pack, table.unpack

local MOST_MS = 4e12 -- the sum of two deadlines must be an integer, too

--------------------------------------------------------------------------------------------- checks

local function check_usable(self, method)
  if self.disposed then
    error(format("eventloop.%s: the loop is disposed; create another with eventloop()", method), 3)
  end
end

local function check_function(method, fn)
  if type(fn) ~= "function" then
    error(format("eventloop.%s: expected a function, got %s", method, type(fn)), 3)
  end
end

local function check_name(method, name)
  if type(name) ~= "string" or name == "" then
    local got = name == "" and "an empty string" or type(name)
    error(format("eventloop.%s: expected the name of an event, got %s", method, got), 3)
  end
end

-- Converts milliseconds to nanoseconds.
local function check_ms(method, ms)
  if type(ms) ~= "number" then
    error(format("eventloop.%s: expected milliseconds, got %s", method, type(ms)), 3)
  elseif not (ms >= 0 and ms < huge) then
    error(format("eventloop.%s: expected milliseconds, at least 0, got %s", method, ms), 3)
  end
  return floor(min(ms, MOST_MS) * 1e6 + 0.5)
end

---------------------------------------------------------------------------------------------- lists

-- Lists that may be iterated while others change them: a change makes a new list.

local function without(list, item)
  local shorter = {}
  for _, other in ipairs(list) do
    if other ~= item then
      shorter[#shorter + 1] = other
    end
  end
  return shorter
end

local function with(list, item)
  local longer = without(list, nil)
  longer[#longer + 1] = item
  return longer
end

-- Returns the keys of a table, in order.
local function sorted_keys(set, is_before)
  local list = {}
  for key in pairs(set) do
    list[#list + 1] = key
  end
  sort(list, is_before)
  return list
end

local function is_due_before(a, b)
  return a.deadline < b.deadline or a.deadline == b.deadline and a.id < b.id
end

------------------------------------------------------------------------------------------ callbacks

-- Calls back in a child task of the server. The task is done when everything that the callback has
-- started is done.
local function call(self, fn, ...)
  local calls = self.calls
  calls.last = calls.last + 1
  calls.count = calls.count + 1
  calls.ids[current()] = calls.last
  local _ <close> = self.call_ends
  scope(fn, ...)
end

-- A repeating timer keeps its rate, and skips the calls that it missed.
local function skip_missed(timer)
  local late = hrtime() - timer.deadline
  if late > 0 then
    timer.deadline = timer.deadline + timer.every * ((late - 1) // timer.every + 1)
  end
end

local function remove_timer(self, timer)
  if self.timers[timer] then
    self.timers[timer] = nil
    self.timer_count = self.timer_count - 1
    self.changed:set()
  end
end

-- Each timer is a task: it sleeps or calls back.
local function run_timer(self, timer)
  repeat
    if timer.every then
      skip_missed(timer)
    end
    timer.sleeper = current()
    sleep(max(0, timer.deadline - hrtime()) / 1e6)
    timer.sleeper = nil
    if self.stopping then
      return
    elseif timer.every then
      timer.deadline = timer.deadline + timer.every
    else
      remove_timer(self, timer)
    end
    call(self, timer.fn)
  until self.stopping or not self.timers[timer]
end

local function start_timer(self, timer)
  if self.timers[timer] and not timer.sleeper then
    run("timer", run_timer, self, timer)
  end
end

local function start_call(self, fn)
  run("callback", call, self, fn)
end

local function later(self, start, what)
  self.fresh[#self.fresh + 1] = { start = start, what = what }
  self.changed:set()
end

local function start_fresh(self)
  local fresh = self.fresh
  self.fresh = {}
  for _, note in ipairs(fresh) do
    note.start(self, note.what)
  end
end

-- Delivers the events that are queued now; events that their handlers queue wait for the next turn.
-- A delivered event reaches all its handlers.
local function deliver(self)
  for _ = self.first, self.last do
    if self.stopping then
      return
    end
    local event = self.queued[self.first]
    self.queued[self.first] = nil
    self.first = self.first + 1
    for _, handler in ipairs(self.handlers[event.name] or {}) do
      if not handler.gone then
        run(event.name, call, self, handler.fn, unpack(event, 1, event.n))
      end
    end
  end
end

-------------------------------------------------------------------------------------------- running

local function count_pending(self)
  return self.timer_count + self.handler_count + (self.last - self.first + 1) + self.calls.count + #self.fresh
end

local function end_sleep(timer)
  local sleeper = timer.sleeper
  timer.sleeper = nil
  if sleeper then
    close(sleeper)
  end
end

local function drop_all(self)
  for timer in pairs(self.timers) do
    end_sleep(timer)
  end
  for _, handlers in pairs(self.handlers) do
    for _, handler in ipairs(handlers) do
      handler.gone = true
    end
  end
  self.timers, self.timer_count, self.fresh = {}, 0, {}
  self.handlers, self.handler_count = {}, 0
  self.queued, self.first, self.last = {}, 1, 0
end

-- Closes the callbacks in the order in which they began.
local function close_tasks(self)
  for timer in pairs(self.timers) do
    end_sleep(timer)
  end
  local ids = self.calls.ids
  for _, task in ipairs(sorted_keys(ids, function(a, b) return ids[a] < ids[b] end)) do
    close(task)
  end
end

local function serve(self)
  for _, timer in ipairs(sorted_keys(self.timers, is_due_before)) do
    start_timer(self, timer)
  end
  for _, fn in ipairs(self.on_start) do
    start_call(self, fn)
  end
  repeat
    self.changed:clear()
    start_fresh(self)
    deliver(self)
    if self.first <= self.last or #self.fresh > 0 then
      checkpoint()
    elseif not self.stopping and count_pending(self) > 0 then
      self.changed:wait()
    end
  until self.stopping or count_pending(self) == 0
  close_tasks(self)
end

-- Runs the server in a task of its own, so that its errors and those of the hooks are treated
-- alike: the first is raised, and task:errors() has the others. Awaiting the task would observe its
-- error.
local function serve_to_the_end(self, over)
  local _ <close> = over
  scope(serve, self)
end

local function serve_and_stop(self)
  local over = new_event()
  run("server", serve_to_the_end, self, setmetatable({}, { __close = function() over:set() end }))
  shield(over.wait, over)
  self.stopping = true
  if is_closing() then
    drop_all(self)
  end
  for _, fn in ipairs(self.on_stop) do
    run("onStop", shield, fn)
  end
end

-- Raises "closed" in a task that is being closed, as every wait does.
local function check_open()
  if is_closing() then
    error("closed", 0)
  end
end

-- Raises "C stack overflow" if little of the C stack is left. What the server closes, even if it
-- fails at once, must not fail for that reason.
local function check_c_stack(levels)
  if levels > 0 then
    local ok, err = pcall(check_c_stack, levels - 1)
    if not ok then
      error(err, 0)
    end
  end
end

-- Runs the loop in the current task.
local function run_loop(self)
  check_c_stack(20)
  self.running, self.stopping, self.stop_asked, self.outcome = true, false, false, "failed"
  local _ <close> = self.run_ends
  supervise(serve_and_stop, self)
  self.outcome = self.stop_asked and "stopped" or "dry"
  check_open()
end

-- Plain code of the host drives the real loop. It cannot ask for the errors after the first, so
-- they are reported.
local function run_loop_in_plain_code(self)
  local task = run({ name = "eventloop", detached = true }, run_loop, self)
  local waited, ok, err = pcall(pwait, task)
  if not waited then -- it was interrupted, or would have waited for ever
    close(task)
    pcall(pwait, task)
    error(ok, 0)
  elseif ok then
    return
  end
  for i, other in ipairs(errors(task)) do
    if i > 1 then
      run({ name = "eventloop", detached = true }, error, other, 0)
    end
  end
  error(err, 0)
end

-------------------------------------------------------------------------------------------- methods

local methods = private.watch({}, "a private loop")

-- Notes that a loop does not have this field.
local function missing(_, key)
  local _ = methods[key]
end

local function add_timer(self, ns, every, fn)
  self.last_id = self.last_id + 1
  local timer = { id = self.last_id, deadline = hrtime() + ns, every = every, fn = fn, created = where() }
  self.timers[timer] = true
  self.timer_count = self.timer_count + 1
  if self.running then
    later(self, start_timer, timer)
  end
  return function()
    remove_timer(self, timer)
    end_sleep(timer)
  end
end

function methods:setTimeout(ms, fn)
  check_usable(self, "setTimeout")
  local ns = check_ms("setTimeout", ms)
  check_function("setTimeout", fn)
  return add_timer(self, ns, nil, fn)
end

function methods:setInterval(ms, fn)
  check_usable(self, "setInterval")
  local ns = check_ms("setInterval", ms)
  check_function("setInterval", fn)
  ns = ns == 0 and 1000000 or ns -- as in loop.set_interval
  return add_timer(self, ns, ns, fn)
end

function methods:register(name, fn)
  check_usable(self, "register")
  check_name("register", name)
  check_function("register", fn)
  local handler = { fn = fn, created = where() }
  self.handlers[name] = with(self.handlers[name] or {}, handler)
  self.handler_count = self.handler_count + 1
  return function()
    if not handler.gone then
      handler.gone = true
      self.handlers[name] = without(self.handlers[name], handler)
      self.handler_count = self.handler_count - 1
      self.changed:set()
    end
  end
end

function methods:queueEvent(name, ...)
  check_usable(self, "queueEvent")
  check_name("queueEvent", name)
  local event = pack(...)
  event.name = name
  self.last = self.last + 1
  self.queued[self.last] = event
  self.changed:set()
end

-- A loop that runs already calls back at once.
function methods:onStart(fn)
  check_usable(self, "onStart")
  check_function("onStart", fn)
  local function hook()
    return fn()
  end
  self.on_start = with(self.on_start, hook)
  if self.running then
    later(self, start_call, hook)
  end
  return function()
    self.on_start = without(self.on_start, hook)
  end
end

function methods:onStop(fn)
  check_usable(self, "onStop")
  check_function("onStop", fn)
  local function hook()
    return fn()
  end
  self.on_stop = with(self.on_stop, hook)
  return function()
    self.on_stop = without(self.on_stop, hook)
  end
end

function methods:runLoop()
  check_usable(self, "runLoop")
  if self.running then
    error("eventloop.runLoop: the loop is running already", 2)
  end
  check_open()
  if current() then
    run_loop(self)
  else
    run_loop_in_plain_code(self)
  end
end

function methods:stopLoop()
  self.stopping, self.stop_asked = true, true
  self.changed:set()
end

function methods:isRunning()
  return self.running
end

-- Returns "new", "running", "disposed", or how the last run ended: "stopped", "dry" (nothing was
-- pending) or "failed".
function methods:state()
  if self.disposed then
    return "disposed"
  end
  return self.running and "running" or self.outcome
end

-- Counts timers, handlers, queued events and unfinished callbacks, without the callback that asks.
function methods:pending()
  local asks = self.calls.ids[current() or false]
  return count_pending(self) - #self.fresh - (asks and 1 or 0)
end

function methods:dispose()
  self.disposed = true
  drop_all(self)
  methods.stopLoop(self)
end

------------------------------------------------------------------------------------------ left over

local made = {} -- owner -> the loops that it has created, while a test runner checks for leaks

local function track_for_leaks(self)
  local who = owner()
  if who then
    made[who] = made[who] or {}
    made[who][#made[who] + 1] = self
  end
end

local function is_older(a, b)
  return a.id < b.id
end

-- A timeout that was set when the loop was stopped is not a leak: it is a time limit that was not
-- reached.
local function is_abandoned_limit(self, timer)
  return not self.running and timer.id <= self.last_run_id and not timer.every
end

local function add_timers(self, list)
  for _, timer in ipairs(sorted_keys(self.timers, is_older)) do
    if not is_abandoned_limit(self, timer) then
      local state = timer.every and format("repeats every %.1f ms", timer.every / 1e6)
        or format("fires in %.1f ms", max(0, timer.deadline - hrtime()) / 1e6)
      list[#list + 1] = { kind = "private loop's timer", state = state, created = timer.created }
    end
  end
end

local function add_handlers(self, list)
  for _, name in ipairs(sorted_keys(self.handlers)) do
    for _, handler in ipairs(self.handlers[name]) do
      list[#list + 1] = { kind = "private loop's event handler", name = name, created = handler.created }
    end
  end
end

private.host = {}

-- Appends what the loops of one owner have left behind.
function private.host.list_of(who, list)
  for _, self in ipairs(made[who] or {}) do
    if methods.state(self) == "new" then
      list[#list + 1] = { kind = "private loop", state = "was never run", created = self.created }
    end
    add_timers(self, list)
    add_handlers(self, list)
  end
end

function private.host.forget(who)
  made[who] = nil
end

-- Disposes of the loops that do not run. Loops that run have tasks, which are ended anyway.
function private.host.dispose_of(who)
  for _, self in ipairs(made[who] or {}) do
    if not self.running then
      self.disposed = true
      drop_all(self)
    end
  end
  made[who] = nil
end

------------------------------------------------------------------------------------------------ new

local function new()
  local self = {
    timers = {}, timer_count = 0, last_id = 0, -- a set
    handlers = {}, handler_count = 0, -- name -> list
    queued = {}, first = 1, last = 0, -- events
    fresh = {}, -- what the server has to start
    calls = { ids = {}, count = 0, last = 0 }, -- the tasks of callbacks
    on_start = {}, on_stop = {},
    running = false, stopping = false, stop_asked = false, disposed = false,
    outcome = "new",
    created = where(),
    last_run_id = 0, -- the last timer that was set when the last run ended
    changed = new_event(),
  }
  self.call_ends = setmetatable({}, {
    __close = function()
      self.calls.ids[current()] = nil
      self.calls.count = self.calls.count - 1
      self.changed:set()
    end,
  })
  self.run_ends = setmetatable({}, {
    __close = function()
      for timer in pairs(self.timers) do
        timer.sleeper = nil
      end
      if is_closing() then
        self.outcome = "stopped"
      end
      self.running, self.fresh, self.last_run_id = false, {}, self.last_id
      self.calls = { ids = {}, count = 0, last = 0 }
    end,
  })
  track_for_leaks(self)
  -- Methods may be called with a dot or with a colon.
  local public = {}
  for name, method in next, methods do
    public[name] = function(first, ...)
      if first == public then
        return method(self, ...)
      end
      return method(self, first, ...)
    end
  end
  return setmetatable(public, { __close = public.dispose, __index = missing, __name = "orrery.eventloop" })
end

local function check_no_arguments(...)
  if select("#", ...) > 0 then
    error(format("eventloop.new: expected no arguments, got a %s; a private loop has no options", type((...))), 3)
  end
end

-- The module itself can be called: `eventloop()`.
orrery.eventloop = setmetatable({
  new = function(...)
    check_no_arguments(...)
    return new()
  end,
}, {
  __call = function(_, ...)
    check_no_arguments(...)
    return new()
  end,
})
