-- A completion callback that never returns: it is ended, and the script goes on.
-- expect: ok
local async = orrery.async
local task = async.run(async.sleep, 1)
task:on_complete(function() while true do end end)
pcall(async.await, task)
pcall(async.sleep, 300)
