-- Arithmetic that is answered by another arithmetic on the same table, for ever.
-- expect: timeout
local mt = {}
local t = setmetatable({}, mt)
mt.__add = function() return t - 1 end
mt.__sub = function() while true do end end
while true do pcall(function() return t + 1 end) end
