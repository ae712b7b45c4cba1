-- Tasks that never end are started for ever.
-- expect: error .
-- Either the deadline or the memory limit ends it.
while true do orrery.async.run(orrery.async.sleep, 1e9) end
