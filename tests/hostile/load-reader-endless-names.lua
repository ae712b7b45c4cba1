-- A reader that has always one more letter of the same name.
-- expect: error .
-- Either the deadline or the memory limit ends it.
local piece = ("a"):rep(1 << 16)
assert(load(function() return piece end))
