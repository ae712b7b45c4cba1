-- Floods the queue of callbacks under pcall.
-- expect: error .
while true do pcall(orrery.schedule, print) end
