-- Thousands of tasks wait at one empty queue, and are all closed.
-- expect: ok
local async = orrery.async
local queue = async.queue()
local tasks = {}
for i = 1, 1000 do tasks[i] = async.run(function() return queue:get() end) end
for i = 1, 1000 do tasks[i]:close() end
for i = 1, 1000 do async.pawait(tasks[i]) end
queue:put(1)
assert(queue:get() == 1)
