-- The utf8 functions over long strings, for ever.
-- expect: timeout
local s = ("\u{10FFFF}"):rep(1 << 20)
while true do
  utf8.len(s)
  utf8.offset(s, -1)
  utf8.offset(s, 1 << 19)
end
