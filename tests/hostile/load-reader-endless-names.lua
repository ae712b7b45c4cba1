-- A reader that has always one more letter of the same name.
-- expect: error .
-- Out of memory or out of time, whichever comes first.
local piece = ("a"):rep(1 << 16)
assert(load(function() return piece end))
