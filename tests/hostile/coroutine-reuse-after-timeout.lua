-- A coroutine is resumed for ever after its own errors, and new coroutines replace it.
-- expect: timeout
local function body() while true do coroutine.yield() end end
local co = coroutine.create(body)
while true do
  if not coroutine.resume(co) then co = coroutine.create(body) end
end
