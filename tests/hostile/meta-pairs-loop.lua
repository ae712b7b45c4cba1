-- __pairs itself never returns.
-- expect: timeout
for _ in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end
