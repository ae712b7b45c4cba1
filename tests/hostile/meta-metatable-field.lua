-- __metatable must hide a metatable from getmetatable and guard it from setmetatable.
-- expect: ok
local t = setmetatable({}, { __metatable = false, __index = { secret = 1 } })
assert(getmetatable(t) == false)
assert(not pcall(setmetatable, t, {}))
assert(not pcall(setmetatable, t, nil))
