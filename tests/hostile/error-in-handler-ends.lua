-- An error in an error handler comes back as a value, once.
-- expect: ok
local ok, err = xpcall(error, function(e) error(e) end, "x")
assert(not ok and err ~= nil)
