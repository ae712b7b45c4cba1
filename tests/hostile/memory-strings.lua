-- Ever new strings, all of them kept.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local t, long = {}, ("x"):rep(10000)
for i = 1, math.huge do
  t[i] = long .. i
  if i % 200 == 0 then orrery.async.sleep(0) end
end
