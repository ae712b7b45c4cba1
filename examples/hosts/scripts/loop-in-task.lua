-- A task that does not wait is ended at its deadline, pcall or not.  Whoever awaits it hears of it, and goes on.
local async = host.async

local task = async.run("spin", function()
  while true do
    pcall(function() while true do end end)
  end
end)
print("script: awaited", async.pawait(task))
