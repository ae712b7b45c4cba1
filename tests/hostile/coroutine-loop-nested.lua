-- A loop twenty coroutines down, each of which protects itself.
-- expect: timeout
local function down(n)
  if n == 0 then while true do end end
  while true do pcall(coroutine.wrap(down), n - 1) end
end
down(20)
