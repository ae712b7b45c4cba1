-- A wrapped coroutine that calls itself, and one that closes itself while it runs.
-- expect: ok
local co
co = coroutine.wrap(function() return pcall(co) end)
local ok = co()
assert(ok == false)
local thread
thread = coroutine.create(function() return pcall(coroutine.close, thread) end)
local _, closed = coroutine.resume(thread)
assert(closed == false)
