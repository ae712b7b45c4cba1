-- Tasks that never end are started for ever.
-- expect: error .
-- It is a race between the deadline and the memory; either may end it.
while true do orrery.async.run(orrery.async.sleep, 1e9) end
