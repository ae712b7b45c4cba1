-- The loop waits at the bottom of a hundred and fifty coroutines.
-- expect: timeout
local function down(n)
  if n == 0 then while true do end end
  coroutine.wrap(down)(n - 1)
end
down(150)
