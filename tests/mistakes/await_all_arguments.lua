-- Gives tasks as arguments, not as a list.
local async = require("orrery").async

local function fetch() async.sleep(1) end
local one, two = async.run(fetch), async.run(fetch)
async.await_all(one, two)
