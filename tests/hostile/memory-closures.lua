-- Closures that hold one another.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local f, n = function() end, 0
while true do
  local g, h = f, {}
  f = function() return g, h end
  n = n + 1
  if n % 5000 == 0 then orrery.async.sleep(0) end
end
