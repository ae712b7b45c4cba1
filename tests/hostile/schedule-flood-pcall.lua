-- Floods the queue of callbacks under pcall.
-- expect: timeout
while true do pcall(orrery.schedule, print) end
