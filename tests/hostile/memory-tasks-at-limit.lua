-- Starts tasks, timers and futures when there is no memory left for them.
-- expect: any end
local async, loop = orrery.async, orrery.loop
local hold = table.pack(table.unpack({}, 1, 20000))
local i, size, unit = 0, 1 << 20, ("x"):rep(64)
local function take() hold[i + 1] = unit:rep(size // 64) i = i + 1 end
while size >= 64 do
  if not pcall(take) then size = size // 2 end
end
local nothing = function() end
for _ = 1, 100 do
  pcall(async.run, nothing)
  pcall(async.future)
  pcall(async.queue)
  pcall(loop.set_timeout, 1, nothing)
  pcall(orrery.schedule, nothing)
  pcall(async.sleep, 0)
end
hold = nil
async.sleep(5)
