-- Misspells a module.
local orrery = require "orrery"
orrery.asnyc.sleep(10)
