-- Errors that carry long strings, kept in a list.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local t, long = {}, ("x"):rep(1 << 18)
while true do
  local _, e = pcall(error, long .. #t)
  t[#t + 1] = e
  orrery.async.sleep(0)
end
