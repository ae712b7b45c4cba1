-- Ends a queue with nil.
local async = require("orrery").async

local queue = async.queue()
queue:put(nil)
