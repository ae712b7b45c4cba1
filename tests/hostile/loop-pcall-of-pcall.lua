-- pcall of pcall of pcall: C functions only between the loop and the top.
-- expect: timeout
while true do
  pcall(pcall, pcall, pcall, function() while true do end end)
end
