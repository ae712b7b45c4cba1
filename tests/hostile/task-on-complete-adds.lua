-- A completion callback that registers itself again on the task that is done.
-- expect: ok
local task, n = orrery.async.run(function() end), 0
local function again()
  n = n + 1
  if n < 10000 then task:on_complete(again) end
end
pcall(again)
pcall(orrery.async.sleep, 10)
assert(n > 1)
