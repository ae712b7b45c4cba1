-- Awaits a function that never calls back.
local async = require("orrery").async

local function fetch()
  async.sleep(1)
end

async.await(fetch)
