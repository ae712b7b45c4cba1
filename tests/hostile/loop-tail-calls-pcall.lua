-- pcall as the tail call: each pcall is gone before the next starts.
-- expect: timeout
local function f() return select(2, pcall(string.len, "")) end
local function g() f() return g() end
g()
