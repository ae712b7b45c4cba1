-- An endless loop in __concat, in the middle of a long concatenation.
-- expect: timeout
local t = setmetatable({}, { __concat = function() while true do end end })
local _ = "a" .. "b" .. t .. "c" .. "d"
