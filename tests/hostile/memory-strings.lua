-- Ever new strings, all of them kept.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local t, long = {}, ("x"):rep(10000)
for i = 1, math.huge do
  t[i] = long .. i
  if i % 200 == 0 then orrery.async.sleep(0) end
end
