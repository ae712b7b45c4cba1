-- A file whose body fails, and that leaves behind what would never end by itself.
local orrery = require "orrery"
local async = orrery.async

orrery.loop.set_interval(1, function() end)
local function again() orrery.schedule(again) end
again()
async.run({ name = "mule", detached = true }, function()
  while true do
    pcall(async.sleep, 1000)
    async.shield(async.sleep, 1)
  end
end)
it("never runs", function() end)
error("the body fails")
