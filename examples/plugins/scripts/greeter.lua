-- Behaves: greets, listens to ticks, and says goodbye when it is unloaded.
local orrery = require "orrery"
local async, events = orrery.async, orrery.events

host.log("hello from a host of version " .. host.version())
events:once("tick", function(number)
  host.log("has heard of a tick, a number of type " .. math.type(number))
end)

local _ <close> = setmetatable({}, { __close = function() host.log("goodbye") end })
async.sleep(1e12)
