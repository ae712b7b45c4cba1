-- The same coroutine is resumed for ever after its own errors; new ones take its place.
-- expect: timeout
local function body() while true do coroutine.yield() end end
local co = coroutine.create(body)
while true do
  if not coroutine.resume(co) then co = coroutine.create(body) end
end
