-- Two tasks read from one stream.
local orrery = require("orrery")
local async, net = orrery.async, orrery.net

local a, b = net.pair()
async.run("first", function() b:read_line() end)
async.run("second", function() b:read_line() end)
a:write("hello\n")
