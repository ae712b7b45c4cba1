-- Host and port in two arguments, as in other libraries of sockets.
local net = require("orrery").net

local stream = net.connect("127.0.0.1", 80)
print(stream)
