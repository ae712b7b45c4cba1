-- Sends a function to another thread inside a table.
local worker = require("orrery").worker
local double = worker.new(function(job) return job.run(job.number) end)
print(double:call({ number = 2, run = function(n) return 2 * n end }))
