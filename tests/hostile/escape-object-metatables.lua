-- The metatables of the runtime's objects are hidden, and cannot be replaced.
-- expect: ok
local async, loop = orrery.async, orrery.loop
local task = async.run(async.sleep, 1)
for _, object in ipairs {
  task, async.future(), async.event(), async.queue(), async.semaphore(1), async.mutex(), async.condition(), loop.new_timer(),
} do
  assert(type(getmetatable(object)) ~= "table")
  assert(not pcall(setmetatable, object, {}))
  assert(not pcall(rawset, object, "x", 1))
  assert(not pcall(function() object.x = 1 end))
  assert(object.__gc == nil and object.__index == nil and object.__close == nil or type(object.__close) == "function")
end
