-- A picture of a tree of thousands of tasks with long names, over and over.
-- expect: timeout
local async = orrery.async
for i = 1, 500 do async.run(("n"):rep(1000) .. i, async.sleep, 1e9) end
while true do async.inspect_tree() end
