-- A string of a terabyte.
-- expect: ok
assert(not pcall(string.rep, "x", 1 << 40))
assert(not pcall(string.rep, "x", math.maxinteger))
assert(not pcall(string.rep, "xy", math.maxinteger, "separator"))
assert(not pcall(string.rep, ("x"):rep(1 << 20), 1 << 20))
