-- table.move between metamethods that are C functions.
-- expect: timeout
table.move(setmetatable({}, { __index = rawlen }), 1, 10 ^ 15 // 1 | 0, 1, setmetatable({}, { __newindex = rawequal }))
