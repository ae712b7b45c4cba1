-- Starts a task with the name that another library has.
local async = require("orrery").async

async.spawn(function()
  print "hello"
end)
