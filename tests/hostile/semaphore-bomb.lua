-- A semaphore with impossible numbers of permits, released without having been acquired.
-- expect: ok
local async = orrery.async
for _, n in ipairs { -1, math.mininteger, 1.5, 0 / 0, "x", {} } do
  local ok, s = pcall(async.semaphore, n)
  if ok then pcall(s.try_acquire, s) end
end
local s = async.semaphore(1)
for _ = 1, 1000 do pcall(s.release, s) end
