-- A timer's callback that never returns is ended, and the script goes on.
-- expect: ok
local timer = orrery.loop.set_timeout(1, function() while true do end end)
orrery.async.sleep(500)
timer:close()
