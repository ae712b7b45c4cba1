-- Misspells an option.
local async = require("orrery").async

async.run({ nmae = "brewer" }, function() end)
