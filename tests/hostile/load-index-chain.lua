-- Lua looks for the name of a nil along a chain of indices, each time from the function's start.
-- expect: error .
-- uninterrupted: the message is made in C; quadratic: 10,000 links take 0.07 s, 40,000 take 1.2 s
local d = {}
d.a = d
local f = assert(load("local d = ... return d" .. (".a"):rep(10000) .. ".b.c"))
f(d)
