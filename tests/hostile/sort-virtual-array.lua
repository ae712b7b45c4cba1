-- Two thousand million elements that exist only in metamethods, all of them C functions: no Lua runs in the sort.
-- expect: error .
local t = setmetatable({}, { __len = function() return (1 << 31) - 2 end, __index = rawlen, __newindex = rawequal })
table.sort(t, math.ult)
