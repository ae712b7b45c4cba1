-- Hits the limit again and again under pcall, and keeps what it has.
-- expect: error .
local t = {}
while true do
  pcall(function() while true do t[#t + 1] = { 1, 2, 3 } end end)
end
