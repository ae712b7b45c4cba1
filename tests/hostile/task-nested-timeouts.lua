-- A thousand nested time limits, all of which end at once.
-- expect: ok
local async = orrery.async
local function nest(n)
  if n == 0 then return async.sleep(1000) end
  return async.with_timeout(5, nest, n - 1)
end
assert(not pcall(nest, 100))
