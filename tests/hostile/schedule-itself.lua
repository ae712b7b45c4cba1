-- A callback that schedules itself, for ever: never long, but always there.
-- expect: ok
local n = 0
local function again()
  n = n + 1
  if n < 10000 then orrery.schedule(again) end
end
again()
orrery.async.sleep(10)
assert(n > 1)
