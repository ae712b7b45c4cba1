-- A child that awaits its parent, which waits for the child.
-- expect: ok
local async = orrery.async
local parent = async.current()
local child = async.run(function() return pcall(async.await, parent) end)
assert(select(2, async.pawait(child)) == false)
