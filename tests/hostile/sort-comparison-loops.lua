-- A comparison function that never returns.
-- expect: timeout
-- uninterrupted: table.sort is a C function that calls the comparison, so it cannot be suspended
table.sort({ 3, 2, 1 }, function() while true do end end)
