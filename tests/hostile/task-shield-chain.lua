-- Cleanup that shields cleanup that shields cleanup, when the task is closed.
-- expect: ok
local async = orrery.async
local depth = 0
local function cleanup()
  depth = depth + 1
  if depth < 1000 then
    local _ <close> = setmetatable({}, { __close = cleanup })
    async.shield(function() async.sleep(0) end)
  end
end
local task = async.run(function()
  local _ <close> = setmetatable({}, { __close = cleanup })
  async.sleep(1000)
end)
task:close()
async.pawait(task)
assert(depth > 0)
