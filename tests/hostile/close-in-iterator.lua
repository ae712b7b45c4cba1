-- The closing value of a generic for loops when the loop is broken off.
-- expect: timeout
for _ in next, { 1 }, nil, setmetatable({}, { __close = function() while true do end end }) do break end
