-- table.concat of endlessly many empty strings.
-- expect: timeout
-- uninterrupted: table.concat is a C function that calls the metamethod
table.concat(setmetatable({}, { __index = function() return "" end }), "", 1, math.maxinteger - 1)
