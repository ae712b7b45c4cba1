-- Recursion to the limit of the stack, again and again, under pcall.
-- expect: timeout
local function f() return 1 + f() end
while true do pcall(f) end
