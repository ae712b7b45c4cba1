-- Callbacks, closes and tracebacks of async_nvim call back into it, out of turn and many times.
-- expect: ok
local async = require "orrery.async_nvim"
local task, saved
task = async.run(function()
  pcall(async.await, function(callback)
    saved = callback
    return {
      close = function(_, over)
        task:close()
        over()
        over()
        saved()
        task:close(function() task:close() end)
        pcall(task.complete, task, 1)
      end,
      is_closing = function() task:traceback() return false end,
    }
  end)
  saved("late")
  pcall(async.sleep, 1)
  coroutine.yield(coroutine.running())
end)
saved()
saved()
assert(task:pwait(1000) == false)
assert(task:status() == "completed")
local future = async._future()
future:wait(function() future:wait(function() pcall(future.complete, future) end) end)
future:complete()
for _, hostile in ipairs { setmetatable({}, { __index = function() error "no" end }), setmetatable({}, { __call = error }) } do
  local other = async.run(function() pcall(async.await, function(callback) callback() return hostile end) end)
  other:pwait(10)
end
