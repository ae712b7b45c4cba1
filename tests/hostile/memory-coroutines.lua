-- Coroutines that are started, suspended and kept.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local t = {}
while true do
  local co = coroutine.create(coroutine.yield)
  coroutine.resume(co)
  t[#t + 1] = co
  if #t % 1000 == 0 then orrery.async.sleep(0) end
end
