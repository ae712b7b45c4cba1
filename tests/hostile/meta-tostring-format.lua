-- string.format with %s and a __tostring that never returns.
-- expect: timeout
-- uninterrupted: string.format is a C function that calls the metamethod
string.format("%s", setmetatable({}, { __tostring = function() while true do end end }))
