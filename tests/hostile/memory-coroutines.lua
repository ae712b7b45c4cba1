-- Coroutines that are started, suspended and kept.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local t = {}
while true do
  local co = coroutine.create(coroutine.yield)
  coroutine.resume(co)
  t[#t + 1] = co
  if #t % 1000 == 0 then orrery.async.sleep(0) end
end
