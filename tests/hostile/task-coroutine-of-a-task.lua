-- The coroutine behind a task is not the script's to resume, close or wrap.
-- expect: ok
local async = orrery.async
local co
local task = async.run(function()
  co = coroutine.running()
  async.sleep(20)
  return "whole"
end)
for _ = 1, 3 do
  assert(not (coroutine.resume(co, "poison")))
  pcall(coroutine.close, co)
  pcall(coroutine.status, co)
end
assert(async.await(task) == "whole")
