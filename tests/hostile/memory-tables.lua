-- Tables in tables in tables, all of them kept.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local t, n = {}, 0
while true do
  t = { t, {}, {}, {} }
  n = n + 1
  if n % 5000 == 0 then orrery.async.sleep(0) end
end
