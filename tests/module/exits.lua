-- Exits the process with a status from inside a task, deep in the tree; everything cleans up first.
local orrery = require "orrery"
local async = orrery.async

local function says(text)
  return setmetatable({}, { __close = function() print(text) end })
end

orrery.run(function()
  local _ <close> = says("main cleaned up")
  async.run(function()
    local _ <close> = says("sibling cleaned up")
    async.sleep(1e9)
  end)
  async.run(function()
    local _ <close> = says("exiting")
    async.sleep(1)
    os.exit(9, true)
  end)
end)
print("never printed")
