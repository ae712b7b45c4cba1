-- Tasks of async_nvim inside each other, thousands deep, closed, completed and failing.
-- expect: ok
local async = require "orrery.async_nvim"
local function nest(n, last)
  if n == 0 then return last() end
  return async.await(async.run(nest, n - 1, last))
end
assert(async.run(nest, 500, function() async.sleep(1) return "deep" end):wait() == "deep")
assert(not async.run(nest, 500, function() async.sleep(1) error "deep" end):pwait())
local task = async.run(nest, 500, function() async.sleep(1e6) end)
task:close()
assert(not task:pwait())
assert(#async._inspect_tree() == 0)
