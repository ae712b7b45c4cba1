-- table.move over a huge range, downward and into another table.
-- expect: timeout
table.move({}, 2, 10 ^ 15 // 1 | 0, 1, {})
