-- The README's picture: a task that draws a frame every 100 ms, and a plugin that never ends.
local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop

print "a plugin goes wrong:    while true do pcall(function() while true do end end) end"

local plugin = async.run({ name = "plugin", fair = true, deadline = 1000 }, function()
  while true do pcall(function() while true do end end) end
end)

local began, drawn = loop.now(), 0
local frames = async.run("frames", function()
  while true do
    drawn = drawn + 1
    local due = began + 100 * drawn
    async.sleep(due - loop.now())
    local state = plugin:status() == "completed" and "ended" or "loops on"
    print(("frame %2d   %.1f ms late   the plugin %s"):format(drawn, loop.now() - due, state))
  end
end)

local ok, err = async.pawait(plugin)
print("the plugin, awaited:   ", ok, err)
async.sleep(300)
frames:close()
