-- wrap inside pcall in a loop; a coroutine that dies by a hook's error keeps its hooks off.
-- expect: timeout
while true do
  pcall(coroutine.wrap(function() while true do end end))
end
