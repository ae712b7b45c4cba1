-- Two tasks that await each other, under a limit of time.
-- expect: ok
local async = orrery.async
local a, b
a = async.run(function() async.sleep(1) return async.await(b) end)
b = async.run(function() return async.await(a) end)
pcall(async.timeout, 20, a)
a:close()
b:close()
pcall(async.await, a)
pcall(async.await, b)
