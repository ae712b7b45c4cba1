-- Cancels a task as elsewhere.
local async = require("orrery").async

local task = async.run(function() async.sleep(1000) end)
task:cancel()
