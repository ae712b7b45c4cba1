-- The figures of tasks.lua for cqueues, as far as it has the features.

package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"
local cqueues = require "cqueues"
local condition = require "cqueues.condition"

collectgarbage("incremental") -- as in our program; the interpreter's default is generational
local COUNT = 50000
local MANY = 10000

-- Runs a function as a coroutine of a new queue; returns nanoseconds for one of `count`.
local function timed(count, fn)
  local queue = cqueues.new()
  local start = cqueues.monotime()
  queue:wrap(fn, queue)
  assert(queue:loop())
  return (cqueues.monotime() - start) * 1e9 / count
end

local function nothing() end

local function spawn()
  return timed(COUNT, function(queue)
    for _ = 1, COUNT do
      queue:wrap(nothing)
    end
  end)
end

-- cqueues has no handle to await, so the child signals.
local function spawn_await()
  return timed(COUNT, function(queue)
    local done = condition.new()
    for _ = 1, COUNT do
      queue:wrap(function()
        done:signal()
      end)
      done:wait()
    end
  end)
end

local function sleep_0()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      cqueues.sleep(0)
    end
  end)
end

local function ping_pong()
  return timed(COUNT, function(queue)
    local mine, other = condition.new(), condition.new()
    queue:wrap(function()
      for _ = 1, COUNT / 2 do
        mine:signal()
        other:wait()
      end
      mine:signal()
    end)
    for _ = 1, COUNT / 2 do
      mine:wait()
      other:signal()
    end
  end)
end

local function broadcast()
  local queue, all = cqueues.new(), condition.new()
  for _ = 1, MANY do
    queue:wrap(function()
      all:wait()
    end)
  end
  queue:step(0)
  local start = cqueues.monotime()
  all:signal()
  assert(queue:loop())
  return (cqueues.monotime() - start) * 1e9 / MANY
end

local function weigh()
  local queue = cqueues.new()
  collectgarbage()
  collectgarbage()
  local before = collectgarbage("count")
  for _ = 1, MANY do
    queue:wrap(cqueues.sleep, 1e6)
  end
  queue:step(0)
  collectgarbage()
  collectgarbage()
  local bytes = (collectgarbage("count") - before) * 1024 / MANY
  return queue and bytes
end

figure.compare("cqueues_spawn", "ns", spawn)
figure.compare("cqueues_spawn_await", "ns", spawn_await)
figure.compare("cqueues_ping_pong", "ns", ping_pong)
figure.compare("cqueues_sleep_0", "ns", sleep_0)
figure.compare("cqueues_waiter_of_10000", "ns", broadcast)
figure.line("cqueues_sleeping_task_lua_bytes", weigh(), "bytes") -- without what it allocates in C
