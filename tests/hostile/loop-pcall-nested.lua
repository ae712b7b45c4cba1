-- A hundred pcalls inside each other around a loop; each would catch the error and loop again.
-- expect: timeout
local function nest(n)
  if n == 0 then while true do end end
  while true do pcall(nest, n - 1) end
end
nest(100)
