-- Waits of no time at all, for ever: does it count as running?
-- expect: ok
-- It waits each time, so it is not ended; the host's turns stay short.  It stops by itself.
local started = orrery.loop.now()
while orrery.loop.now() - started < 300 do orrery.async.checkpoint() end
