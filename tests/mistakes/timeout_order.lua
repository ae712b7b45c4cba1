-- Swaps the arguments of a timeout.
local async = require("orrery").async

local task = async.run(function() async.sleep(1000) end)
async.timeout(task, 10)
