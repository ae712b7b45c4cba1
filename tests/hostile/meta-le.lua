-- An endless loop in __le, whose result would be negated by nobody.
-- expect: timeout
local mt = { __le = function() while true do end end }
local _ = setmetatable({}, mt) >= setmetatable({}, mt)
