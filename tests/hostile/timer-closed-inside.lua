-- A timer that closes, stops and restarts itself and others in its own callback.
-- expect: ok
local loop = orrery.loop
local a, b = loop.new_timer(), loop.new_timer()
local function mess()
  a:stop()
  b:close()
  a:close()
  pcall(a.start, a, 0, 0, print)
  pcall(b.again, b)
end
a:start(1, 1, mess)
b:start(1, 1, mess)
orrery.async.sleep(20)
