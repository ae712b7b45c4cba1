-- Awaits the result of a call, not a task.
local async = require("orrery").async

local function fetch()
  async.sleep(1)
  return { "data" }
end

async.await(fetch())
