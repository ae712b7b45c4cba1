-- An endless loop in __tostring, by way of tostring.
-- expect: timeout
-- uninterrupted: tostring is a C function that calls the metamethod, so it cannot be suspended
tostring(setmetatable({}, { __tostring = function() while true do end end }))
