-- A chain of __index tables that comes back to its start: Lua must notice.
-- expect: error loop
local a, b = {}, {}
setmetatable(a, { __index = b })
setmetatable(b, { __index = a })
local _ = a.x
