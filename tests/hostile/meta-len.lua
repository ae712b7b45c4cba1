-- An endless loop in __len.
-- expect: timeout
local _ = #setmetatable({}, { __len = function() while true do end end })
