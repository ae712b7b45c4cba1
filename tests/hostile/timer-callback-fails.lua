-- An interval whose callback fails each time.
-- expect: ok
local n = 0
local timer = orrery.loop.set_interval(1, function() n = n + 1 error("again") end)
pcall(orrery.async.sleep, 20)
timer:close()
pcall(orrery.async.sleep, 5)
