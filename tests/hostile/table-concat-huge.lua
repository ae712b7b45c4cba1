-- table.concat of an empty table from 1 to 10^15, and of one that answers with long strings.
-- expect: ok
assert(not pcall(table.concat, {}, "", 1, 10 ^ 15 // 1 | 0))
local long = ("x"):rep(1 << 20)
assert(not pcall(table.concat, setmetatable({}, { __index = function() return long end }), "", 1, 10 ^ 15 // 1 | 0))
assert(not pcall(table.concat, { 1, 2 }, long, math.mininteger, math.maxinteger))
