-- Drops thousands of suspended coroutines with a looping __close: the collector must not run them.
-- expect: ok
for _ = 1, 2000 do
  local co = coroutine.create(function()
    local _ <close> = setmetatable({}, { __close = function() while true do end end })
    coroutine.yield()
  end)
  coroutine.resume(co)
end
collectgarbage("step")
