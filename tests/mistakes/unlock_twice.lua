-- Unlocks a mutex twice.
local async = require("orrery").async

local mutex = async.mutex()
mutex:lock()
mutex:unlock()
mutex:unlock()
