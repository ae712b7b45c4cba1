-- Integer division and modulo by 0 and -1, shifts past the width, NaN as text and as a key.
-- expect: ok
assert(not pcall(load "local a = 0 return 1 // a"))
assert(not pcall(load "local a = 0 return 1 % a"))
local minus = -1
assert(math.mininteger // minus == math.mininteger and math.mininteger % minus == 0)
assert(1 << 64 == 0 and 1 >> math.mininteger == 0 and -1 >> 63 == 1)
assert(type(tostring(-(0 / 0))) == "string")
local t = {}
assert(not pcall(function() t[0 / 0] = 1 end) and t[0 / 0] == nil)
assert(not pcall(rawset, t, nil, 1))
assert(not pcall(string.format, "%d", 2.5))
assert(not math.tointeger(2 ^ 63))
