-- A __gc that rawget finds but an __index hides, and one that only an __index would give.
-- expect: ok
local loop = function() while true do end end
local mt = setmetatable({}, { __index = function() return nil end, __len = function() return 0 end })
rawset(mt, "__gc", loop)
assert(not pcall(setmetatable, {}, mt))
-- Lua looks raw: this one is harmless
setmetatable({}, setmetatable({}, { __index = { __gc = loop } }))
for _ = 1, 1e5 do local _ = {} end
collectgarbage("step")
