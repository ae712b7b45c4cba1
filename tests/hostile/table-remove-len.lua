-- table.remove at the front of as many elements as __len claims.
-- expect: timeout
table.remove(setmetatable({}, { __len = function() return 10 ^ 15 // 1 | 0 end }), 1)
