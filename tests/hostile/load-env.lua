-- An environment that is not a table, that loops, or that is the chunk's own upvalue.
-- expect: timeout
assert(not pcall(load("x = 1", "c", "t", nil)))
assert(not pcall(load("x = 1", "c", "t", 7)))
load("return x", "c", "t", setmetatable({}, { __index = function() while true do end end }))()
