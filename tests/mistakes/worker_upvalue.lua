-- Uses a local variable of the script in a worker.
local worker = require("orrery").worker
local factor = 3
local triple = worker.new(function(n) return factor * n end)
print(triple:call(2))
