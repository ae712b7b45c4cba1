-- A chunk without globals, one whose _ENV is a trap, and one that replaces its own _ENV.
-- expect: ok
local f = load("local _ENV = nil return 1", "c", "t", {})
assert(f() == 1)
local g = load("local _ENV = { x = 2 } return x")
assert(g() == 2)
local h = load("_ENV = setmetatable({}, { __index = function(_, k) return k end }) return y")
assert(h() == "y")
assert(_G.x == nil)
