-- Each task starts the next as it starts.
-- expect: error .
-- Either the deadline or the memory limit ends it.
local function start() orrery.async.run(start) end
start()
