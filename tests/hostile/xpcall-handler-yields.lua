-- A handler that waits; handlers cannot be suspended, so it must be an error and not a hang.
-- expect: ok
local ok = xpcall(error, function() orrery.async.sleep(1) end, "x")
assert(not ok)
