-- A script that gives its own child a longer deadline than it has itself.
-- expect: timeout
local task = orrery.async.run({ deadline = 1e9 }, function() while true do end end)
orrery.async.await(task)
