-- The stack overflows inside the handler of a stack overflow.
-- expect: ok
local function f() return 1 + f() end
local function handler() return 1 + f() end
local ok = xpcall(f, handler)
assert(not ok)
