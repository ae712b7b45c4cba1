-- An endless loop in __lt.
-- expect: timeout
local mt = { __lt = function() while true do end end }
local _ = setmetatable({}, mt) < setmetatable({}, mt)
