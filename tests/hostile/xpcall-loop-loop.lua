-- The message handler is the endless loop, too; Lua runs handlers with hooks off.
-- expect: timeout
local function loop() while true do end end
xpcall(loop, loop)
