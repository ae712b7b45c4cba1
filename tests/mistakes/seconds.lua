-- Takes the arguments of a timer for those of another library.
local loop = require("orrery").loop
loop.set_timeout(function() print "later" end, 10)
