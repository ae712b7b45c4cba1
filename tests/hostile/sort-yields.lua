-- A comparison that waits: an error, since sort cannot be suspended.
-- expect: ok
local ok, err = pcall(table.sort, { 3, 2, 1 }, function(a, b) orrery.async.sleep(0) return a < b end)
assert(not ok and err)
