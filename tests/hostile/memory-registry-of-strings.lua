-- Short strings only: the table of all short strings grows with them.
-- expect: error .
-- It waits in between, so that the memory limit ends it, not the deadline.
local t = {}
for i = 1, math.huge do
  t[i] = "s" .. i
  if i % 5000 == 0 then orrery.async.sleep(0) end
end
