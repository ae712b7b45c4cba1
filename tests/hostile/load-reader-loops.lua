-- A reader that never returns.
-- expect: timeout
-- uninterrupted: load is a C function that calls the reader
load(function() while true do end end)
