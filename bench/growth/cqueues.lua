-- The figures of growth.lua for cqueues, as far as it has the features.
-- Usage: lua5.4 cqueues.lua N

local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local count = assert(math.tointeger(tonumber(arg[1])), "a number expected")

collectgarbage("incremental") -- as in our program; the interpreter's default is generational

local function print_figure(plot, value)
  print(("%s\tcqueues\t%d\t%.1f"):format(plot, count, value))
  io.flush()
end

local function median(values)
  table.sort(values)
  return values[(#values + 1) // 2]
end

-- Waiters of one condition, all woken.
local REPEATS = math.max(1, 5000 // count)
local function tasks()
  local start = os.clock()
  for _ = 1, REPEATS do
    local queue, gate = cqueues.new(), condition.new()
    for _ = 1, count do queue:wrap(gate.wait, gate) end
    queue:step(0)
    gate:signal()
    assert(queue:loop())
  end
  return (os.clock() - start) * 1e9 / count / REPEATS
end

local figures = {}
for i = 1, count > 1e5 and 1 or 3 do figures[i] = tasks() end
print_figure("tasks", median(figures))

local function settle()
  for _ = 1, 2 do collectgarbage() end
  return collectgarbage "count" * 1024
end

-- cqueues has no handle to await, so the child signals.
local CHILDREN = 2000
local queue, gate = cqueues.new(), condition.new()
local before = settle()
for _ = 1, count do queue:wrap(gate.wait, gate) end
queue:step(0)
print_figure("memory", (settle() - before) / count) -- without what it allocates in C
local over, start, taken = false
queue:wrap(function()
  local done = condition.new()
  start = os.clock()
  for _ = 1, CHILDREN do
    queue:wrap(function() done:signal() end)
    done:wait()
  end
  taken = os.clock() - start
  over = true
end)
while not over do assert(queue:step(0)) end
print_figure("siblings", taken * 1e9 / CHILDREN)
os.exit(0, false) -- the waiters are never woken
