-- Coroutines inside coroutines until Lua's own limit: an error, and the state is sound afterwards.
-- expect: ok
local deepest = 0
local function down(n)
  deepest = n
  local ok, err = coroutine.resume(coroutine.create(down), n + 1)
  if not ok then error(err, 0) end
end
local ok, err = pcall(down, 1)
assert(not ok and tostring(err):find("overflow"), err)
assert(deepest > 50)
assert(coroutine.wrap(function() return 42 end)() == 42)
