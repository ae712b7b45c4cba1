-- table.insert on a table whose __newindex never returns.
-- expect: timeout
-- uninterrupted: table.insert is a C function that calls the metamethod
table.insert(setmetatable({}, { __newindex = function() while true do end end }), 1)
