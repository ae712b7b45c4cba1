-- table.unpack of ten and a hundred million nils, and of ranges that overflow.
-- expect: ok
assert(not pcall(table.unpack, {}, 1, 10 ^ 7 // 1 | 0))
assert(not pcall(table.unpack, {}, 1, 10 ^ 8 // 1 | 0))
assert(not pcall(table.unpack, {}, math.mininteger, math.maxinteger))
assert(not pcall(table.unpack, {}, 0, math.maxinteger))
assert(select("#", table.unpack({}, math.maxinteger, math.maxinteger)) == 1)
