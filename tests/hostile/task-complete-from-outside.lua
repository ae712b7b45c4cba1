-- Completes and closes its own task, its parent and tasks that are done, in every state.
-- expect: ok
local async = orrery.async
local me = async.current()
local child = async.run(function() async.sleep(0) pcall(me.complete, me, 1) end)
async.pawait(child)
for _ = 1, 3 do
  pcall(child.complete, child, 1)
  pcall(child.close, child)
  pcall(child.detach, child)
  pcall(child.wait, child, 0)
  pcall(child.traceback, child, ("x"):rep(1 << 20))
  pcall(child.on_complete, child, print)
end
