-- Calls the function instead of handing it over.
local async = require("orrery").async

local function fetch() async.sleep(1) end
async.run(fetch())
