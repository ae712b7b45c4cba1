-- A gmatch iterator that matches the empty string; it must end.
-- expect: ok
local n = 0
for _ in ("x"):rep(1000):gmatch("y*") do n = n + 1 end
assert(n == 1001)
