-- A replacement table whose __index never returns.
-- expect: timeout
-- uninterrupted: string.gsub is a C function that calls the metamethod
string.gsub("x", "x", setmetatable({}, { __index = function() while true do end end }))
