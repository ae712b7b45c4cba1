-- Closures that hold one another.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local f, n = function() end, 0
while true do
  local g, h = f, {}
  f = function() return g, h end
  n = n + 1
  if n % 5000 == 0 then orrery.async.sleep(0) end
end
