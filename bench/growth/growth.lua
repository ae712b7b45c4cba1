-- What one operation costs in Lua when there are many: tasks, siblings, timers, handlers; beside
-- bare coroutines, plain calls and luv in the same process.  Prints lines "plot series n value".
--
-- Usage: orrery growth.lua N

package.path = (arg[0]:match("^(.*/)") or "./") .. "../lua/?.lua;" .. package.path
local have_luv, uv = pcall(require, "luv")
local orrery = require "orrery"
local async, new_timer, events = orrery.async, orrery.loop.new_timer, orrery.events
local run, await = async.run, async.await
local count = assert(math.tointeger(tonumber(arg[1])), "a number expected")

local raw = require("figure").bare_coroutines()
local create, resume, yield = raw.create, raw.resume, raw.yield

local function nothing() end

-- What the core has for a task, as in lua/tasks.lua: Lua does not count it.
local CORE_BYTES = 216.8

-- Processor time in nanoseconds.
local function now()
  return os.clock() * 1e9
end

-- Passes last at least 20 ms together.  A figure is the median, for one of `each` operations.
local function measure(plot, series, each, pass)
  local figures, began = {}, now()
  repeat
    local start = now()
    local taken = pass() or now() - start
    figures[#figures + 1] = taken / each
  until #figures >= 3 and now() - began > 20e6 or #figures >= 100 or now() - began > 4e9
  collectgarbage()
  table.sort(figures)
  print(("%s\t%s\t%d\t%.1f"):format(plot, series, count, figures[(#figures + 1) // 2]))
  io.flush()
end

-- Repeats short passes, because the clock ticks in microseconds.
local REPEATS = math.max(1, 5000 // count)
local function repeated(pass)
  return function()
    for _ = 1, REPEATS do pass() end
  end
end

-- --- Tasks ---------------------------------------------------------------------------------------

measure("tasks", "Orrery, Lua", count * REPEATS, repeated(function()
  local gate, tasks = async.event(), {}
  for i = 1, count do tasks[i] = run(gate.wait, gate) end
  gate:set()
  for i = 1, count do await(tasks[i]) end
end))

measure("tasks", "bare coroutines", count * REPEATS, repeated(function()
  local list = {}
  for i = 1, count do
    list[i] = create(yield)
    resume(list[i])
  end
  for i = 1, count do resume(list[i]) end
end))

local function settle()
  for _ = 1, 2 do collectgarbage() end
  return collectgarbage "count" * 1024
end

local gate, tasks = async.event(), {}
for i = 1, count do tasks[i] = false end
local before = settle()
for i = 1, count do tasks[i] = run(gate.wait, gate) end
print(("memory\tOrrery, Lua\t%d\t%.1f"):format(count, (settle() - before) / count + CORE_BYTES))

local CHILDREN = 20000
measure("siblings", "Orrery, Lua", CHILDREN, function()
  for _ = 1, CHILDREN do await(run(nothing)) end
end)
gate:set()
for i = 1, count do await(tasks[i]) end
tasks = {}

for i = 1, count do tasks[i] = false end
before = settle()
for i = 1, count do
  tasks[i] = create(yield)
  resume(tasks[i])
end
print(("memory\tbare coroutines\t%d\t%.1f"):format(count, (settle() - before) / count))
measure("siblings", "bare coroutines", CHILDREN, function()
  for _ = 1, CHILDREN do resume(create(nothing)) end
end)
tasks = nil
collectgarbage()

-- --- Handlers ------------------------------------------------------------------------------------

local handled = 0
local handlers = {}
for i = 1, count do handlers[i] = events:on("event", function() handled = handled + 1 end) end
measure("handlers", "Orrery, Lua", count * REPEATS, repeated(function() events:emit("event", 1) end))
assert(handled >= count, "some handlers were not called")
for i = 1, count do events:off(handlers[i]) end

local functions = {}
for i = 1, count do functions[i] = function() handled = handled + 1 end end
measure("handlers", "pcall of each", count * REPEATS, repeated(function()
  for i = 1, #functions do pcall(functions[i], 1) end
end))
functions, handlers = nil, nil

-- --- Timers --------------------------------------------------------------------------------------

measure("timers", "Orrery, Lua", count * REPEATS, repeated(function()
  local left, over = count, async.event()
  for _ = 1, count do
    local timer = new_timer()
    timer:start(0, 0, function()
      timer:close()
      left = left - 1
      if left == 0 then over:set() end
    end)
  end
  over:wait()
end))

if have_luv then
  measure("timers", "luv", count * REPEATS, repeated(function()
    uv.update_time()
    for _ = 1, count do
      local timer = uv.new_timer()
      timer:start(0, 0, function() timer:close() end)
    end
    uv.run()
  end))
else
  print "# luv: not installed"
end
