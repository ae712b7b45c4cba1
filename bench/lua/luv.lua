-- Timers and scheduling of luv, beside ours of bench_living: the same counts, callbacks that do as little.  luv has no schedule():
-- the three ways there are to run something in the next turn of its loop.

local uv = require "luv" -- before this file itself can be found by that name
package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"

collectgarbage("incremental") -- as in our program; the interpreter's own choice is the other
local COUNT = 20000

-- Runs a function, and the loop until nothing is left; answers nanoseconds of one of COUNT.
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

figure.compare("luv_timer_one_by_one", "ns", timer_one)
figure.compare("luv_timer_20000", "ns", timer_many)
figure.compare("luv_idle_one_by_one", "ns", idle_one)
figure.compare("luv_idle_20000", "ns", idle_many)
figure.compare("luv_async_one_by_one", "ns", async_one)
