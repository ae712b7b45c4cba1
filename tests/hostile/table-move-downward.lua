-- The same in the other direction, into another table.
-- expect: timeout
table.move({}, 2, 10 ^ 15 // 1 | 0, 1, {})
