-- A queue without bound that is only ever filled.
-- expect: error .
-- It is a race between the deadline and the memory; either may end it.
local queue = orrery.async.queue()
while true do queue:put(("x"):rep(1000)) end
