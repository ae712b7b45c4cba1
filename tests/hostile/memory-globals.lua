-- Fills the table of globals.
-- expect: error .
-- It waits in between, so that the memory limit ends it, not the deadline.
for i = 1, math.huge do
  _G["g" .. i] = { i }
  if i % 5000 == 0 then orrery.async.sleep(0) end
end
