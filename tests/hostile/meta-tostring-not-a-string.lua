-- The task fails with an object whose __tostring returns a table.
-- expect: error .
error(setmetatable({}, { __tostring = function() return {} end }))
