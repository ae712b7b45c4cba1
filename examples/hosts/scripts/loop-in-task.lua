-- A task that does not wait is ended at its deadline, pcall or not. The task that awaits it gets
-- the error and goes on.
local async = host.async

local task = async.run("spin", function()
  while true do
    pcall(function() while true do end end)
  end
end)
print("script: awaited", async.pawait(task))
