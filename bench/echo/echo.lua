-- An echo server on net.serve.  Prints its port.
local net = require("orrery").net

local server = assert(net.serve("127.0.0.1:0", function(peer)
  while true do
    local data = peer:read()
    if not data then
      break
    end
    peer:write(data)
  end
end))
print(server:address():match("%d+$"))
io.stdout:flush()
