-- All bytes of a long string as results.
-- expect: ok
local s = ("x"):rep(4 << 20)
assert(not pcall(string.byte, s, 1, -1))
assert(not pcall(string.byte, s, math.mininteger, math.maxinteger))
assert(select("#", s:byte(1, 1000)) == 1000)
