-- Tail calls for ever: the stack does not grow.
-- expect: timeout
local function f(n) return f(n + 1) end
f(0)
