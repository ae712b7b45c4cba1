-- Each task starts the next as it starts.
-- expect: error .
-- It is a race between the deadline and the memory; either may end it.
local function start() orrery.async.run(start) end
start()
