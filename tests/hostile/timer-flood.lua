-- Timers without number, all for the same moment, none of them kept.
-- expect: error .
-- It is a race between the deadline and the memory; either may end it.
while true do orrery.loop.set_timeout(1e6, function() end) end
