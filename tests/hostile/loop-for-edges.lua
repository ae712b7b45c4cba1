-- Loops at the edges of the integers, where a careless limit check wraps round and never ends.
-- expect: ok
local n = 0
for _ = math.maxinteger - 1, math.maxinteger do n = n + 1 end
for _ = math.mininteger + 1, math.mininteger, -1 do n = n + 1 end
for _ = math.maxinteger - 1, math.huge do n = n + 1 end
for _ = 1, 0 do n = n + 1 end
assert(n == 6)
assert(not pcall(load "for i = 1, 10, 0 do end"))
