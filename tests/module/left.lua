-- Ends while a task is left that has something to clean up; its arguments choose a status and an
-- abrupt end.
local orrery = require "orrery"
local async = orrery.async

orrery.run(function()
  async.run({ detached = true }, function()
    local _ <close> = setmetatable({}, { __close = function() print("cleaned up") end })
    async.sleep(1e9)
  end)
  print("main over")
end)
io.stdout:flush()
if arg[1] then
  os.exit(tonumber(arg[1]), arg[2] ~= "abruptly")
end
