-- Gives an event two values.
local events = require("orrery").events
events:on("moved", function(x, y) print(x, y) end)
events:emit("moved", 1, 2)
