-- Numbers of millions of digits, in several bases, for ever.
-- expect: timeout
local s = ("1"):rep(4 << 20)
while true do
  tonumber(s)
  tonumber(s, 36)
  tonumber("0x" .. s)
  tonumber("0x." .. s .. "p-1")
end
