-- Locks two mutexes in different orders.
local async = require("orrery").async

local a, b = async.mutex(), async.mutex()
local function hold(first, second)
  first:lock()
  async.sleep(1)
  second:lock()
end
async.run("one", hold, a, b)
async.run("two", hold, b, a)
