-- Tables in tables in tables, all of them kept.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local t, n = {}, 0
while true do
  t = { t, {}, {}, {} }
  n = n + 1
  if n % 5000 == 0 then orrery.async.sleep(0) end
end
