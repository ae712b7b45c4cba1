-- Short strings only: the table of all short strings grows with them.
-- expect: error .
-- It gives way in between, so that it is the memory which ends it, not the time.
local t = {}
for i = 1, math.huge do
  t[i] = "s" .. i
  if i % 5000 == 0 then orrery.async.sleep(0) end
end
