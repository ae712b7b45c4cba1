-- A loop that always continues before it can count.
-- expect: timeout
local n = 0
while n < 10 do
  if n >= 0 then goto continue end
  n = n + 1
  ::continue::
end
