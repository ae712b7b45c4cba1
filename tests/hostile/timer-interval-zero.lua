-- set_interval of 0 ms: the loop must still get to everything else.
-- expect: ok
local n = 0
local timer = orrery.loop.set_interval(0, function() n = n + 1 end)
orrery.async.sleep(20)
timer:close()
assert(n > 0)
