-- A queue without bound that is only ever filled.
-- expect: error .
-- Either the deadline or the memory limit ends it.
local queue = orrery.async.queue()
while true do queue:put(("x"):rep(1000)) end
