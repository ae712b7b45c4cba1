-- Part of lua/async_nvim.lua: what is built on tasks and waiting. The chunk's arguments are the
-- module, the functions of lua/async_nvim_futures.lua, and those of lua/async_nvim.lua.

local M, base, inside = ...
local error, next, pcall, setmetatable, tostring, type = error, next, pcall, setmetatable, tostring, type
local format, pack, unpack = string.format, table.pack, table.unpack
local huge, math_type = math.huge, math.type

local validate, when_completed = base.validate, base.when_completed
local new_list, append, remove, is_empty, take_first =
  base.new_list, base.append, base.remove, base.is_empty, base.take_first
local current, check_current, is_task = inside.current, inside.check_current, inside.is_task
local is_closing, wait_for, forget_failure = inside.is_closing, inside.wait_for, inside.forget_failure
local new_timer, is_our_timer, schedule = inside.new_timer, inside.is_our_timer, inside.schedule

local CLOSED, TIMEOUT = "closed", "timeout"

------------------------------------------------------------------------------------ protected calls

-- An error that concerns the whole task: that it is closed, or that a child has failed.
local function concerns_task(task, err)
  return task and (err == CLOSED and is_closing(task) or err ~= nil and err == task._child_error)
end

local function return_or_raise(task, ok, ...)
  if not ok and concerns_task(task, (...)) then
    error((...), 0)
  end
  return ok, ...
end

-- Catches errors of the function itself, but neither the failure of a child nor close().
function M.pcall(fn, ...)
  return return_or_raise(current(), pcall(fn, ...))
end

function M.pawait(...)
  return return_or_raise(check_current(), pcall(M.await, ...))
end

----------------------------------------------------------------------------------------------- time

local function start_timer(callback, ms)
  local timer = new_timer()
  timer:start(ms, 0, callback)
  return timer
end

function M.sleep(duration)
  validate("duration", duration, "number")
  wait_for(check_current(), nil, is_our_timer(), start_timer, duration)
end

-- Lets everything run that is scheduled.
function M.checkpoint()
  wait_for(check_current(), nil, false, schedule)
end

-- Awaits a task. After `duration` it closes the task, waits for its cleanup, and raises "timeout".
function M.timeout(duration, task)
  validate("duration", duration, "number")
  if not is_task(task) then
    error(format("task: expected Task, got %s", type(task)), 2)
  end
  local me, expired = check_current(), false
  forget_failure(me, task)
  local result = wait_for(me, task, is_our_timer(), function()
    return start_timer(function()
      expired = true
      task:close()
    end, duration)
  end)
  if expired and result[1] == CLOSED then
    error(TIMEOUT, 0)
  elseif result[1] ~= nil then
    me._awaited = task
    error(result[1], 0)
  end
  return unpack(result, 2, result.n)
end

----------------------------------------------------------------------------------------- many tasks

local function check_tasks(tasks)
  if type(tasks) ~= "table" then
    error(format("tasks: expected table, got %s", type(tasks)), 3)
  end
  for i = 1, #tasks do
    if not is_task(tasks[i]) then
      error(format("tasks[%d]: expected Task, got %s", i, type(tasks[i])), 3)
    end
  end
end

-- When the loop is left, or nobody can go on with it, the tasks forget it.
local function forget(watching)
  for i, key in next, watching.keys do
    watching.futures[i]._callbacks[key] = nil
  end
end

local Watching = { __close = forget, __gc = forget }
local WatchingUntilClosed = { __close = forget } -- for the sandbox, which has no finalizers

local function new_watching()
  local watching = { keys = {}, futures = {} }
  if not pcall(setmetatable, watching, Watching) then
    setmetatable(watching, WatchingUntilClosed)
  end
  return watching
end

-- Returns a function that returns the index and the results of the next task that is done.
local function iterate(tasks)
  local order, taken, done = {}, 0, 0 -- indices of the tasks, in the order of their ends
  local wanted, watching = nil, new_watching()
  for i = 1, #tasks do
    order[i] = 0
  end
  for i = 1, #order do
    watching.keys[i] = when_completed(tasks[i]._future, function()
      done = done + 1
      order[done] = i
      if wanted then
        wanted()
      end
    end) or 0
    watching.futures[i] = tasks[i]._future
  end
  local function next_done()
    local task = check_current()
    if taken == #order then
      return
    end
    while taken == done do
      wait_for(task, nil, false, function(callback)
        wanted = callback
      end)
      wanted = nil
    end
    taken = taken + 1
    local index = order[taken]
    local result = watching.futures[index]._result
    if result[1] ~= nil then
      forget(watching)
      error(format("iter error[index:%d]: %s", index, tostring(result[1])), 0)
    end
    return index, unpack(result, 2, result.n)
  end
  return next_done, nil, nil, watching
end

function M.iter(tasks)
  check_tasks(tasks)
  check_current()
  return iterate(tasks)
end

function M.await_all(tasks)
  check_tasks(tasks)
  check_current()
  local next_done, _, _, watching <close> = iterate(tasks) -- luacheck: ignore watching
  local results = {}
  local function collect(index, ...)
    if index then
      results[index] = pack(...)
    end
    return index
  end
  while collect(next_done()) do
  end
  return results
end

function M.await_any(tasks)
  check_tasks(tasks)
  check_current()
  local next_done, _, _, watching <close> = iterate(tasks) -- luacheck: ignore watching
  return next_done()
end

------------------------------------------------------------------------------------ waiting in line

-- A list of waiting tasks. A task that is closed while it waits leaves it.

local Place = {} -- what a wait in line returns as its resource
Place.__index = Place

function Place:close(over)
  remove(self)
  over()
end

local function enter_line(callback, line)
  local place = setmetatable({ callback = callback }, Place)
  append(line, place)
  return place
end

local function wait_in(line)
  wait_for(check_current(), nil, false, enter_line, line)
end

-- Continues the first task of the line, at once; returns whether there is one.
local function call_first(line)
  local place = take_first(line)
  if place then
    place.callback()
  end
  return place ~= nil
end

--------------------------------------------------------------------------------------------- events

local Event = {}
Event.__index = Event

function M._event()
  return setmetatable({ _is_set = false, _waiting = new_list() }, Event)
end

-- Wakes all who wait, or the first `max_woken`; then it stays set only if nobody else waits.
function Event:set(max_woken)
  validate("max_woken", max_woken, "number", true)
  if self._is_set then
    return
  end
  local waiting, woken, count = self._waiting, new_list(), 0
  self._is_set = true
  while not is_empty(waiting) and (not max_woken or count < max_woken) do
    append(woken, take_first(waiting))
    count = count + 1
  end
  if not is_empty(waiting) then
    self._is_set = false
  end
  while call_first(woken) do
  end
end

function Event:wait()
  if not self._is_set then
    wait_in(self._waiting)
  end
end

function Event:clear()
  self._is_set = false
end

--------------------------------------------------------------------------------------------- queues

local Queue = {}
Queue.__index = Queue

function M._queue(max_size)
  validate("max_size", max_size, "number", true)
  local getting, putting = new_list(), new_list()
  local self = { _max_size = max_size, _items = {}, _first = 1, _last = 0, _getting = getting, _putting = putting }
  return setmetatable(self, Queue)
end

function Queue:size()
  return self._last - self._first + 1
end

function Queue:max_size()
  return self._max_size
end

local function is_full(queue)
  return queue._max_size and queue:size() >= queue._max_size
end

function Queue:put_nowait(value)
  if is_full(self) then
    error("Queue is full", 2)
  end
  self._items[self._last + 1] = value
  self._last = self._last + 1
  call_first(self._getting)
end

function Queue:get_nowait()
  local first = self._first
  if first > self._last then
    error("Queue is empty", 2)
  end
  local value = self._items[first]
  self._items[first], self._first = nil, first + 1
  call_first(self._putting)
  return value
end

function Queue:put(value)
  while is_full(self) do
    wait_in(self._putting)
  end
  self:put_nowait(value)
end

function Queue:get()
  while self._first > self._last do
    wait_in(self._getting)
  end
  return self:get_nowait()
end

----------------------------------------------------------------------------------------- semaphores

local Semaphore = {}
Semaphore.__index = Semaphore

function M.semaphore(permits)
  validate("permits", permits, "number", true)
  permits = permits or 1
  if math_type(permits) ~= "integer" and permits % 1 ~= 0 or permits < 1 or permits == huge then
    error(format("permits: expected positive integer, got %s", permits), 2)
  end
  return setmetatable({ _permits = permits, _waiting = new_list() }, Semaphore)
end

-- A permit that is released goes to the task that has waited longest.
function Semaphore:acquire()
  if self._permits > 0 then
    self._permits = self._permits - 1
  else
    wait_in(self._waiting)
  end
end

function Semaphore:release()
  if not call_first(self._waiting) then
    self._permits = self._permits + 1
  end
end

Semaphore.__close = Semaphore.release

function Semaphore:with(fn)
  validate("fn", fn, "callable")
  self:acquire()
  local permit <close> = self -- luacheck: ignore permit
  return fn()
end
