-- An endless loop in __newindex.
-- expect: timeout
setmetatable({}, { __newindex = function() while true do end end }).x = 1
