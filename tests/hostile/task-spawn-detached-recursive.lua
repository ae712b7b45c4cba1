-- Each task starts a detached successor after a wait of no time, and ends: no task is ever long.
-- expect: ok
local async = orrery.async
local n = 0
local function step()
  n = n + 1
  async.sleep(0)
  if n < 5000 then async.run({ detached = true }, step) end
end
step()
