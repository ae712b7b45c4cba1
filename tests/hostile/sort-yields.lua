-- A comparison that waits: it may, since this sort can be suspended.
-- expect: ok
local list = { 3, 2, 1 }
local ok = pcall(table.sort, list, function(a, b) orrery.async.sleep(0) return a < b end)
assert(ok and table.concat(list) == "123")
