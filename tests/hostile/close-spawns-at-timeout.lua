-- The __close of a script that is being ended starts a detached task that loops.
-- expect: timeout
local _ <close> = setmetatable({}, {
  __close = function()
    orrery.async.run({ detached = true }, function() while true do end end)
  end,
})
while true do end
