-- Recursion through metamethods: the C stack, not the Lua stack.
-- expect: ok
local mt = {}
mt.__index = function(t, k) return t[k + 1] end
mt.__tostring = function(t) return tostring(t) end
mt.__concat = function(a, b) return a .. b end
local t = setmetatable({}, mt)
assert(not pcall(function() return t[1] end))
assert(not pcall(tostring, t))
assert(not pcall(function() return t .. t end))
