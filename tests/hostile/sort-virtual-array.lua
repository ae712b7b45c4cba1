-- Sorts 2 * 10^9 elements that exist only in metamethods, all in C: no Lua runs in the sort.
-- expect: error .
local t = setmetatable({}, { __len = function() return (1 << 31) - 2 end, __index = rawlen, __newindex = rawequal })
table.sort(t, math.ult)
