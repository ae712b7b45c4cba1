-- pcall around an endless loop, in an endless loop: the error must not be caught.
-- expect: timeout
while true do
  pcall(function() while true do end end)
end
