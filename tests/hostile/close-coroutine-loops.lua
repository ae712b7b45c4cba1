-- coroutine.close of a coroutine whose __close never returns.
-- expect: timeout
-- uninterrupted: closing a coroutine runs its __close inside a C function
local co = coroutine.create(function()
  local _ <close> = setmetatable({}, { __close = function() while true do end end })
  coroutine.yield()
end)
coroutine.resume(co)
coroutine.close(co)
