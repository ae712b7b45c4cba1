-- select with positions that are far outside.
-- expect: ok
assert(not pcall(select, math.mininteger, 1))
assert(not pcall(select, -2, 1))
assert(not pcall(select, 0, 1))
assert(select("#", select(math.maxinteger, 1)) == 0)
