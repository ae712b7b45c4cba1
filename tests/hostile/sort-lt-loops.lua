-- table.sort of objects whose __lt never returns.
-- expect: timeout
-- uninterrupted: table.sort is a C function that calls the metamethod
local mt = { __lt = function() while true do end end }
table.sort { setmetatable({}, mt), setmetatable({}, mt), setmetatable({}, mt) }
