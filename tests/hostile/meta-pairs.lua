-- __pairs returns an iterator that never ends.
-- expect: timeout
for _ in pairs(setmetatable({}, { __pairs = function() return function() return 1 end end })) do end
