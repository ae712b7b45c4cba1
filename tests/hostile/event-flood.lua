-- An event that is set and cleared over and over, with a waiter that comes back each time.
-- expect: ok
-- It waits each time, so it is not ended; the host's turns stay short.  It stops by itself.
local async = orrery.async
local event, rounds = async.event(), 0
local waiter = async.run(function() while true do event:wait() event:clear() rounds = rounds + 1 end end)
local started = orrery.loop.now()
while orrery.loop.now() - started < 200 do event:set() async.checkpoint() end
waiter:close()
pcall(async.await, waiter)
assert(rounds > 0)
