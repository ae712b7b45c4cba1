-- Tasks of async_nvim without end: they count as memory of the isolate.
-- expect: memory
local async = require "orrery.async_nvim"
held = {}
while true do
  held[#held + 1] = async.run(async.await, function() end)
  async.run(async.sleep, 1e6)
end
