-- Nested just below the limit of the parser, and run.
-- expect: ok
local f = load("return " .. ("("):rep(150) .. "7" .. (")"):rep(150))
assert(f == nil or f() == 7)
local g = load("local a = 1 " .. ("do "):rep(150) .. "a = a + 1" .. (" end"):rep(150) .. " return a")
assert(g == nil or g() == 2)
