-- Waits for an event that nobody sets.
local async = require("orrery").async

local ready = async.event()
async.run("starter", function() async.sleep(1) end)
ready:wait()
