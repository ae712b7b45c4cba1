-- A task that catches the cancellation and goes on waiting, and then loops.
-- expect: timeout
local async = orrery.async
local task = async.run(function()
  while true do pcall(async.sleep, 1000) end
end)
task:close()
