-- The metatable of strings must not be within reach.
-- expect: ok
local mt = getmetatable("")
assert(type(mt) ~= "table")
assert(not pcall(setmetatable, "", {}))
assert(not pcall(function() getmetatable("").__index = function() while true do end end end))
assert(("x"):upper() == "X")
