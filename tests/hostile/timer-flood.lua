-- Endlessly many timers for the same moment, none of them kept.
-- expect: error .
-- Either the deadline or the memory limit ends it.
while true do orrery.loop.set_timeout(1e6, function() end) end
