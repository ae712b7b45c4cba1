-- ipairs over a table that has an element at every index.
-- expect: timeout
for _ in ipairs(setmetatable({}, { __index = function(_, i) return i end })) do end
