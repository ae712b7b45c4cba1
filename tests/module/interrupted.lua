-- Waits, loops without waiting, or ignores its cancellation, until it is interrupted; then it runs
-- again.
local orrery = require "orrery"
local async = orrery.async

local function clean_up()
  if arg[1] == "stays" then
    print("not so fast")
    async.shield(async.sleep, 1e12)
  end
  print("cleaned up")
end

io.stdout:setvbuf("line")
print(pcall(orrery.run, function()
  local _ <close> = setmetatable({}, { __close = clean_up })
  async.run("child", function()
    print("ready")
    while arg[1] == "loops" do end
    async.sleep(1e12)
  end)
  async.sleep(1e12)
end))
print("again", orrery.run(function() return 1 end))
