-- string.dump must not be there, under no name.
-- expect: ok
assert(string.dump == nil)
assert(("").dump == nil)
assert(not pcall(function() return ("").dump(print) end))
