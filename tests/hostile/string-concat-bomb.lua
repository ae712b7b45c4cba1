-- s = s .. s until something gives.
-- expect: error string too long
local s = "x"
while true do s = s .. s end
