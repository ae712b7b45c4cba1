-- Closes a coroutine that waits under xpcall; a failing __close finds the handler overwritten.
-- bug: the handler's position outlives the unwinding: another value is called; up to 5.4.7
-- stock: calls a value of the script's choice as the handler; no crash seen
-- expect: ok
local called = 0
local co = coroutine.create(function()
  local _ <close> = setmetatable({}, {
    __close = function()
      local f = function() called = called + 1 end
      local a, b, c, d, e, g, h = f, f, f, f, f, f, f
      error(a and b and c and d and e and g and h and "in close")
    end,
  })
  return xpcall(function() coroutine.yield() end, function(m) return m end)
end)
coroutine.resume(co)
assert(not coroutine.close(co))
assert(called <= 1)
