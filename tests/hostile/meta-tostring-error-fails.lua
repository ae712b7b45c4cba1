-- The task fails with an object whose __tostring fails.
-- expect: error .
error(setmetatable({}, { __tostring = function() error("no message for you") end }))
