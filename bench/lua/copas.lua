-- The figures of tasks.lua for copas, as far as it has the features.

package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"
local copas = require "copas"
local gettime = require("socket").gettime

collectgarbage("incremental") -- as in our program; the interpreter's default is generational
local COUNT = 20000

-- Some versions of copas.loop() do not end when all threads have.
local function timed(count, fn)
  local start, done = gettime(), false
  copas.addthread(function()
    fn()
    done = true
  end)
  while not done do
    copas.step(0)
  end
  return (gettime() - start) * 1e9 / count
end

local function spawn()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      copas.addthread(function() end)
    end
  end)
end

local function sleep_0()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      copas.sleep(0)
    end
  end)
end

figure.compare("copas_spawn", "ns", spawn)
if copas.sleep then -- old versions lack it
  figure.compare("copas_sleep_0", "ns", sleep_0)
end
