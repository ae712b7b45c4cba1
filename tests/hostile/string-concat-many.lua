-- Concatenation of two hundred long strings in one expression.
-- expect: ok
local s = ("x"):rep(1 << 20)
local f = load("local s = ... return s" .. (" .. s"):rep(190))
assert(f)
assert(not pcall(f, s))
