-- Waits on descriptors that are not the script's.
-- expect: ok
local async = orrery.async
for _, fd in ipairs { -1, 0, 1, 2, 3, 4, 5, 1 << 31, math.maxinteger, 1.5, "x" } do
  if async.readable then pcall(async.move_on_after, 1, async.readable, fd) end
  if async.writable then pcall(async.move_on_after, 1, async.writable, fd) end
end
