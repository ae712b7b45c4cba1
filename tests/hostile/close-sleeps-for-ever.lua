-- Cleanup that waits for ever inside a shield, when the script is ended.
-- expect: timeout
local _ <close> = setmetatable({}, {
  __close = function()
    orrery.async.shield(function() orrery.async.future():wait() end)
  end,
})
while true do end
