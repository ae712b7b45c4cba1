-- A child fails, and nobody awaits it.
local async = require("orrery").async

async.run("brewer", function()
  async.sleep(1)
  local kettle = nil
  kettle.boil()
end)
