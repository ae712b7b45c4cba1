-- More callbacks than the queue takes.
-- expect: error queue full
while true do orrery.schedule(function() end) end
