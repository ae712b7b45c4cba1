-- A coroutine that waits in one task is resumed by another.
-- expect: ok
local async = orrery.async
local co = coroutine.create(function() async.sleep(20) return "mine" end)
local first = async.run(function() return coroutine.resume(co) end)
local second = async.run(function() return coroutine.resume(co) end)
local ok, _, value = async.pawait(first)
assert(ok and value == "mine")
async.pawait(second)
