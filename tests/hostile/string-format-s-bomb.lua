-- %s of a long string, many times.
-- expect: ok
local s = ("x"):rep(1 << 20)
local args = {}
for i = 1, 200 do args[i] = s end
assert(not pcall(string.format, ("%s"):rep(200), table.unpack(args)))
