-- A task that resumes, closes and yields its own coroutine.
-- expect: ok
local me = coroutine.running()
assert(not (coroutine.resume(me)))
assert(not pcall(coroutine.close, me))
assert(not pcall(coroutine.yield, "out"))
