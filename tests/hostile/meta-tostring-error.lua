-- Fails with an object whose __tostring loops: the report of the error must not hang.
-- expect: error .
-- uninterrupted: the message is made by a C function that calls the metamethod
error(setmetatable({}, { __tostring = function() while true do end end }))
