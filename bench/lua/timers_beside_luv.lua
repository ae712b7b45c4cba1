-- Timers and scheduling beside luv's, in turn in one process, with equal counts and callbacks that
-- do equally little.  luv has no schedule(), so the three ways to run something in the next turn of
-- its loop are measured.

local uv = require "luv"
package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"
local orrery = require "orrery"
local async, new_timer, schedule = orrery.async, orrery.loop.new_timer, orrery.schedule

local COUNT = 2000

-- Runs a function, and the loop until nothing is left to do; returns nanoseconds for one of COUNT.
local function timed(fn)
  uv.update_time()
  local start = uv.hrtime()
  fn()
  uv.run()
  return (uv.hrtime() - start) / COUNT
end

local function timer_one()
  return timed(function()
    local timer, left = uv.new_timer(), COUNT
    local function again()
      left = left - 1
      if left > 0 then
        timer:start(0, 0, again)
      else
        timer:close()
      end
    end
    timer:start(0, 0, again)
  end)
end

local function timer_many()
  return timed(function()
    for _ = 1, COUNT do
      local timer = uv.new_timer()
      timer:start(0, 0, function() timer:close() end)
    end
  end)
end

local function idle_one()
  return timed(function()
    local idle, left = uv.new_idle(), COUNT
    local function again()
      idle:stop()
      left = left - 1
      if left > 0 then
        idle:start(again)
      else
        idle:close()
      end
    end
    idle:start(again)
  end)
end

local function idle_many()
  return timed(function()
    for _ = 1, COUNT do
      local idle = uv.new_idle()
      idle:start(function() idle:close() end)
    end
  end)
end

local function async_one()
  return timed(function()
    local left = COUNT
    local async
    async = uv.new_async(function()
      left = left - 1
      if left > 0 then
        async:send()
      else
        async:close()
      end
    end)
    async:send()
  end)
end

-- --- Ours ----------------------------------------------------------------------------------------

-- Runs a function, and the loop until the function calls its argument.
local function timed_until(fn)
  local over = async.event()
  local start = uv.hrtime()
  fn(function() over:set() end)
  over:wait()
  return (uv.hrtime() - start) / COUNT
end

local function our_timer_one()
  return timed_until(function(done)
    local timer, left = new_timer(), COUNT
    local function again()
      left = left - 1
      if left > 0 then
        timer:start(0, 0, again)
      else
        timer:close()
        done()
      end
    end
    timer:start(0, 0, again)
  end)
end

local function our_timer_many()
  return timed_until(function(done)
    local left = COUNT
    for _ = 1, COUNT do
      local timer = new_timer()
      timer:start(0, 0, function()
        timer:close()
        left = left - 1
        if left == 0 then
          done()
        end
      end)
    end
  end)
end

local function our_schedule_one()
  return timed_until(function(done)
    local left = COUNT
    local function again()
      left = left - 1
      if left > 0 then
        schedule(again)
      else
        done()
      end
    end
    schedule(again)
  end)
end

-- As many at once as allowed.
local function our_schedule_many()
  return timed_until(function(done)
    local left = COUNT
    local function count()
      left = left - 1
      if left == 0 then
        done()
      elseif left == COUNT // 2 then
        for _ = 1, COUNT // 2 do
          schedule(count)
        end
      end
    end
    for _ = 1, COUNT // 2 do
      schedule(count)
    end
  end)
end

figure.RUNS = 51 -- runs of a few milliseconds each
figure.compare("lua_timer_one_by_one", "ns", our_timer_one, "luv_timer_one_by_one", timer_one)
figure.compare("lua_timer_2000", "ns", our_timer_many, "luv_timer_2000", timer_many)
figure.compare("lua_schedule_one_by_one", "ns", our_schedule_one, "luv_idle_one_by_one", idle_one)
figure.compare("lua_schedule_one_by_one", "ns", our_schedule_one, "luv_async_one_by_one", async_one)
figure.compare("lua_schedule_one_by_one", "ns", our_schedule_one, "luv_timer_one_by_one", timer_one)
figure.compare("lua_schedule_1000", "ns", our_schedule_many, "luv_idle_2000", idle_many)
figure.compare("lua_schedule_1000", "ns", our_schedule_many, "luv_timer_2000", timer_many)
