-- The coroutine's body is coroutine.yield itself: no Lua function runs in it.
-- expect: timeout
while true do
  local co = coroutine.wrap(coroutine.yield)
  co() co()
end
