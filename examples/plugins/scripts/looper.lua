-- Misbehaves: a handler that never returns, and catches every error. After three timeouts in a row
-- it is disabled.
local orrery = require "orrery"

orrery.events:on("tick", function()
  while true do
    pcall(function()
      while true do end
    end)
  end
end)
host.log("is up to no good")
