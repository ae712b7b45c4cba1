-- A timer of 0 ms that starts itself again in its callback.
-- expect: ok
local timer, n = orrery.loop.new_timer(), 0
local function again()
  n = n + 1
  timer:start(0, 0, again)
end
again()
orrery.async.sleep(20)
timer:close()
assert(n > 1)
