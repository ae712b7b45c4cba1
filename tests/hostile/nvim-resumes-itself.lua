-- Coroutines of async_nvim tasks are resumed, closed and wrapped by others, with any values.
-- expect: ok
local async = require "orrery.async_nvim"
for _ = 1, 20 do
  local co
  local task = async.run(function()
    co = coroutine.running()
    for _ = 1, 3 do pcall(async.sleep, 1) end
  end)
  pcall(coroutine.resume, co, {}, nil, true)
  pcall(coroutine.resume, co)
  pcall(coroutine.close, co)
  task:close()
  task:pwait(50)
end
