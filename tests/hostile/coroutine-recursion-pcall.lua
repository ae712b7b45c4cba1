-- Falls to the limit of nested coroutines again and again, under pcall.
-- expect: timeout
local function down() coroutine.wrap(down)() end
while true do pcall(down) end
