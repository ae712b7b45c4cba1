-- Waits of negative, infinite and undefined length.
-- expect: ok
local async, loop = orrery.async, orrery.loop
for _, ms in ipairs { -1, 0, -math.huge, 0 / 0, math.mininteger } do
  pcall(async.move_on_after, 5, async.sleep, ms)
  pcall(loop.set_timeout, ms, function() end)
end
for _, ms in ipairs { math.huge, 1e300, math.maxinteger, 2 ^ 63 } do
  pcall(async.move_on_after, 1, async.sleep, ms)
  local ok, timer = pcall(loop.set_timeout, ms, function() end)
  if ok and timer then timer:close() end
end
