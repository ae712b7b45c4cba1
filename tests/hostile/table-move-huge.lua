-- table.move over a thousand million million elements that are all nil.
-- expect: timeout
table.move({}, 1, 10 ^ 15 // 1 | 0, 2)
