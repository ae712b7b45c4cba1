-- Comparison of the longest strings, which differ only at the end, again and again.
-- expect: timeout
local a = ("a"):rep(6 << 20)
local b, c = a .. "b", a .. "c"
while true do local _ = b < c end
