-- table.move with bounds that wrap round.
-- expect: ok
assert(not pcall(table.move, {}, math.mininteger, math.maxinteger, 1))
assert(not pcall(table.move, {}, 1, math.maxinteger, 2))
assert(not pcall(table.move, {}, math.mininteger, -1, 1))
