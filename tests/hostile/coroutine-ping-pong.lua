-- Yields for ever to a coroutine that resumes for ever: each stretch of Lua is short.
-- expect: timeout
local co = coroutine.wrap(function() while true do coroutine.yield() end end)
while true do co() end
