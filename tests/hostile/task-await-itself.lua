-- A task that awaits itself: an error that says so.
-- expect: ok
local async = orrery.async
local ok, err = pcall(function() return async.await(async.current()) end)
assert(not ok and err)
