-- Calls a method with a dot.
local events = require("orrery").events
events.on("moved", print)
