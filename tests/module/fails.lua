-- A run that fails or is interrupted ends everything that it has started.  The next run finds
-- nothing of it.
local orrery = require "orrery"
local async = orrery.async
local interrupts = arg[1] == "interrupted"

local ticks, calls = 0, 0

local function schedule()
  calls = calls + 1
  orrery.schedule(schedule)
end

local function refuse()
  while true do
    pcall(async.sleep, 1e9)
    async.shield(async.sleep, 1)
  end
end

io.stdout:setvbuf("line")
print(pcall(orrery.run, function()
  orrery.loop.set_interval(1, function() ticks = ticks + 1 end)
  orrery.schedule(schedule)
  async.run({ detached = true }, refuse)
  async.run("mule", refuse)
  async.sleep(5)
  print("ready")
  if interrupts then
    async.sleep(1e9)
  end
  error("the run fails", 0)
end))
local ticks_before, calls_before = ticks, calls
orrery.run(function() async.sleep(10) end)
print(ticks > 0 and ticks == ticks_before, calls > 0 and calls == calls_before)
