-- A task that never waits; when it has been ended, the next one.
local async = compositor.async

while true do
  async.pawait(async.run("spin", function()
    while true do end
  end))
end
