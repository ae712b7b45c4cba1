-- A table with the fields of a real object is passed where an object is expected.
-- expect: ok
local async = orrery.async
local task = async.run(async.sleep, 1)
local fake = setmetatable({ name = "fake", status = function() return "completed" end }, {
  __index = task,
  __name = "orrery.task",
  __close = function() end,
})
assert(not pcall(async.await, fake))
assert(not pcall(async.timeout, 1, fake))
pcall(async.await_all, { fake })
pcall(async.await_any, { fake })
