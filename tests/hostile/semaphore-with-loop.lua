-- A looping task holds the lock; the others must get it when that task is ended.
-- expect: ok
local async = orrery.async
local mutex = async.mutex()
local task = async.run({ detached = true }, function() mutex:with(function() async.sleep(0) while true do end end) end)
local other = async.run(function() return mutex:with(function() return "mine" end) end)
assert(not task:pwait())
assert(async.await(other) == "mine")
