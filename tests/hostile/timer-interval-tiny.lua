-- An interval so small that a million of them are missed between two turns.
-- expect: ok
local ok, timer = pcall(orrery.loop.set_interval, 1e-9, function() end)
orrery.async.sleep(10)
if ok then timer:close() end
