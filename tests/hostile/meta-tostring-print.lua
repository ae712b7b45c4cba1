-- print calls a __tostring that never returns.
-- expect: timeout
-- uninterrupted: print is a C function that calls the metamethod, so it cannot be suspended
print(setmetatable({}, { __tostring = function() while true do end end }))
