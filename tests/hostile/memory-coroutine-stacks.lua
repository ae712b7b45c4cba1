-- Coroutines with stacks of sixty thousand slots each.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local t = {}
while true do
  local co = coroutine.wrap(function(...) coroutine.yield(select("#", ...)) end)
  co(table.unpack({}, 1, 60000))
  t[#t + 1] = co
  orrery.async.sleep(0)
end
