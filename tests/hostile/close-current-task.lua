-- A task that closes itself, from inside __close, while it is being closed.
-- expect: ok
local async = orrery.async
local task = async.run(function()
  local me = async.current()
  local _ <close> = setmetatable({}, { __close = function() pcall(me.close, me) pcall(coroutine.close, coroutine.running()) end })
  async.sleep(1000)
end)
task:close()
assert(not async.pawait(task))
