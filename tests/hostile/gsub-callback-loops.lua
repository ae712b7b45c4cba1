-- A replacement function that never returns.
-- expect: timeout
-- uninterrupted: string.gsub is a C function that calls the replacement
string.gsub("x", "x", function() while true do end end)
