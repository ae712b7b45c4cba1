-- A chain of coroutines that close each other, started by an error in the last one.
-- bug: as close-chain; wrap closes a coroutine that failed, by the same call; 5.4.0 to 5.4.4
-- stock: survives, since resuming is counted
-- expect: ok
local last = false
for _ = 1, 2000 do
  local previous = last
  last = coroutine.wrap(function()
    local _ <close> = setmetatable({}, { __close = function() if previous then previous() end end })
    coroutine.yield()
    error("x", 0)
  end)
  last()
end
assert(not pcall(last))
