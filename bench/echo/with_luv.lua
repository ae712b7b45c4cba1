-- An echo server on luv, run by lua5.4.  Prints its port.
local uv = require "luv"

local listener = uv.new_tcp()
listener:bind("127.0.0.1", 0)
listener:listen(4096, function()
  local peer = uv.new_tcp()
  listener:accept(peer)
  peer:nodelay(true)
  peer:read_start(function(err, data)
    if data then
      peer:write(data)
    elseif not peer:is_closing() then
      peer:close()
    end
    assert(not err or err == "ECONNRESET", err)
  end)
end)
io.stdout:write(listener:getsockname().port, "\n"):flush()
uv.run()
