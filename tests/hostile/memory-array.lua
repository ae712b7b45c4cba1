-- One array that grows.
-- expect: error table too large: a list grew beyond 262144 elements
-- It waits in between, so that the memory limit ends it, not the deadline.
local t = {}
while true do
  t[#t + 1] = 0
  if #t % 50000 == 0 then orrery.async.sleep(0) end
end
