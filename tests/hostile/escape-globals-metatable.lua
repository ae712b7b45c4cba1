-- A metatable on _G whose __index and __newindex loop when a global is looked up.
-- expect: ok
local async = orrery.async
setmetatable(_G, { __index = function() while true do end end, __newindex = function() while true do end end })
local ok = async.await(async.run(function() async.sleep(1) return true end))
setmetatable(_G, nil)
assert(ok)
