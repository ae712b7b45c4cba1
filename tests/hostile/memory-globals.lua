-- Fills the table of globals.
-- expect: error .
-- It gives way in between, so that it is the memory which ends it, not the time.
for i = 1, math.huge do
  _G["g" .. i] = { i }
  if i % 5000 == 0 then orrery.async.sleep(0) end
end
