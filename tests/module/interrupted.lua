-- Waits, or loops without waiting, until it is interrupted; then runs again.
local orrery = require "orrery"
local async = orrery.async

io.stdout:setvbuf("line")
print(pcall(orrery.run, function()
  local _ <close> = setmetatable({}, { __close = function() print("cleaned up") end })
  async.run("child", function()
    print("ready")
    while arg[1] == "loops" do end
    async.sleep(1e9)
  end)
end))
print("again", orrery.run(function() return 1 end))
