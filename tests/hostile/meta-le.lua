-- An endless loop in __le, whose result nothing would use.
-- expect: timeout
local mt = { __le = function() while true do end end }
local _ = setmetatable({}, mt) >= setmetatable({}, mt)
