-- Errors that carry long strings, kept in a list.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local t, long = {}, ("x"):rep(1 << 18)
while true do
  local _, e = pcall(error, long .. #t)
  t[#t + 1] = e
  orrery.async.sleep(0)
end
