-- Long strings of zero bytes: each byte is a segment of its own for the comparison.
-- expect: ended
-- uninterrupted: comparing two strings is one instruction, however long they are
local a = ("\0"):rep(6 << 20)
local b, c = a .. "b", a .. "c"
while true do local _ = b < c end
