-- Takes the hook away, if it can, and loops.
-- expect: timeout
pcall(function() debug.sethook() end)
pcall(function() debug.sethook(coroutine.running()) end)
pcall(function() debug.sethook(function() end, "", 1) end)
while true do end
