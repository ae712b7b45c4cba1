-- The name that Node has.
local net = require("orrery").net

net.createServer(function(socket) socket:write("hello\n") end):listen(8080)
