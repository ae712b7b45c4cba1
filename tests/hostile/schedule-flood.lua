-- More callbacks than the queue takes.
-- expect: error .
while true do orrery.schedule(function() end) end
