-- An endless loop in __index.
-- expect: timeout
local _ = setmetatable({}, { __index = function() while true do end end }).x
