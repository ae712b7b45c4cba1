-- Tasks that end at once are started for ever.
-- expect: timeout
local function nothing() end
while true do orrery.async.run(nothing) end
