-- Calls every method of every object with the wrong self: other objects, and other values.
-- expect: ok
local async, loop = orrery.async, orrery.loop
local objects = {
  task = async.run(async.sleep, 1), future = async.future(), event = async.event(), queue = async.queue(),
  semaphore = async.semaphore(1), mutex = async.mutex(), condition = async.condition(), timer = loop.new_timer(),
}
local methods = {
  task = "wait pwait close complete detach status traceback errors on_complete", future = "complete is_completed wait",
  event = "wait set clear is_set", queue = "put put_nowait get get_nowait close size", semaphore = "acquire try_acquire release with",
  mutex = "lock try_lock unlock is_locked with", condition = "wait notify notify_all",
  timer = "start again stop close is_active is_closing get_due_in set_repeat get_repeat",
}
for class, names in pairs(methods) do
  for name in names:gmatch("%S+") do
    local f = objects[class][name]
    if f then
      for other, object in pairs(objects) do
        if other ~= class then assert(not pcall(f, object, 1, print), class .. "." .. name .. " took a " .. other) end
      end
      for _, junk in ipairs { 1, "x", {}, print, coroutine.running(), true } do
        assert(not pcall(f, junk), class .. "." .. name .. " took a " .. type(junk))
      end
      assert(not pcall(f), class .. "." .. name .. " took nothing")
    end
  end
end
