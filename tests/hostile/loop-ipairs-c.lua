-- ipairs over a table whose elements come from a C function.
-- expect: timeout
for _ in ipairs(setmetatable({}, { __index = rawlen })) do end
