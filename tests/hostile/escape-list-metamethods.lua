-- Lists for await_all and the others whose __index and __len loop or lie.
-- expect: ok
local async = orrery.async
for _, len in ipairs { -1, 10 ^ 15 // 1 | 0, math.maxinteger } do
  local list = setmetatable({}, { __len = function() return len end })
  pcall(async.with_timeout, 10, async.await_all, list)
  pcall(async.with_timeout, 10, async.await_any, list)
end
pcall(async.await_all, { 1, "x", print, {} })
