-- Twenty thousand suspended coroutines, each of which closes the one before it when it is closed.
-- bug: coroutine.close is not counted as a C call: a chain overflows the C stack; 5.4.0 to 5.4.4
-- stock: crashes, from 14,000 on with a C stack of 8 MB
-- expect: ok
local last = false
for i = 1, 20000 do
  if i % 2000 == 0 and orrery then orrery.async.sleep(0) end
  local previous = last
  last = coroutine.create(function()
    local _ <close> = setmetatable({}, { __close = function() if previous then coroutine.close(previous) end end })
    coroutine.yield()
  end)
  coroutine.resume(last)
end
coroutine.close(last)
