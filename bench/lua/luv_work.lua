-- A worker's call there and back with a small value, beside luv's new_work, in turn in one process.

local uv = require "luv"
package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"
local orrery = require "orrery"

local COUNT = 500

local function ours()
  local w = orrery.worker.new "return ..."
  for i = 1, 100 do
    w:call(i)
  end
  local start = uv.hrtime()
  for i = 1, COUNT do
    w:call(i)
  end
  return (uv.hrtime() - start) / COUNT / 1e3
end

-- One after the other: the callback of each queues the next.
local function theirs()
  local left, work = COUNT, nil
  work = uv.new_work(function(value) return value end, function(value)
    left = left - 1
    if left > 0 then
      work:queue(value)
    end
  end)
  local start = uv.hrtime()
  work:queue(1)
  uv.run()
  return (uv.hrtime() - start) / COUNT / 1e3
end

figure.compare("worker_call_beside_luv", "us", ours, "luv_new_work", theirs)
