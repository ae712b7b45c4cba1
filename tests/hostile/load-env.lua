-- An environment that is no table, a table that loops, or the chunk's own upvalue turned against it.
-- expect: timeout
assert(not pcall(load("x = 1", "c", "t", nil)))
assert(not pcall(load("x = 1", "c", "t", 7)))
load("return x", "c", "t", setmetatable({}, { __index = function() while true do end end }))()
