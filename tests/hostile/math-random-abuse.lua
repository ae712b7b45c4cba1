-- math.random over intervals that are empty, reversed or all integers; seeds of all kinds.
-- expect: ok
assert(not pcall(math.random, 0, -1))
assert(not pcall(math.random, math.maxinteger, math.mininteger))
for _ = 1, 1000 do assert(math.type(math.random(math.mininteger, math.maxinteger)) == "integer") end
assert(math.type(math.random(0)) == "integer")
pcall(math.randomseed, 0 / 0)
pcall(math.randomseed, math.huge, -math.huge)
