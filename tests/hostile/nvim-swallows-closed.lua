-- A task of async_nvim catches everything and never waits, started in a task and in a callback.
-- expect: any end
local async = require "orrery.async_nvim"
local function stubborn()
  while true do pcall(error, "again") end
end
local task = async.run(function() async.sleep(1) stubborn() end)
task:pwait()
async.run(stubborn):wait()
