-- Recursion without end is an error that can be caught, and the stack shrinks again.
-- expect: ok
local function f() return 1 + f() end
local ok, err = pcall(f)
assert(not ok and (tostring(err):find("stack overflow") or tostring(err):find("not enough memory")), err)
