-- An endless loop in __eq.
-- expect: timeout
local mt = { __eq = function() while true do end end }
local _ = setmetatable({}, mt) == setmetatable({}, mt)
