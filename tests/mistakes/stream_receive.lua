-- The name that other libraries of sockets have for reading a line.
local net = require("orrery").net

local a, b = net.pair()
a:write("hello\n")
print(b:receive("*l"))
