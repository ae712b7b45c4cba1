-- A scheduled callback that never returns is ended, and the next one runs.
-- expect: ok
local ran = false
orrery.schedule(function() while true do end end)
orrery.schedule(function() ran = true end)
orrery.async.sleep(500)
assert(ran)
