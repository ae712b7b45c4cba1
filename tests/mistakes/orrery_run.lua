-- Starts the loop, as in a stock Lua.
local orrery = require "orrery"
orrery.run(function() print "hello" end)
