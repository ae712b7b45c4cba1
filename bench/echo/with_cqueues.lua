-- An echo server on cqueues, run by lua5.4.  Prints its port.
local cqueues = require "cqueues"
local socket = require "cqueues.socket"

local loop = cqueues.new()
local listener = socket.listen { host = "127.0.0.1", port = 0, nodelay = true }
listener:listen()
io.stdout:write(select(3, listener:localname()), "\n"):flush()
loop:wrap(function()
  for peer in listener:clients() do
    peer:setmode("bn", "bn")
    loop:wrap(function()
      while true do
        local data = peer:read(-16384)
        if not data or not peer:write(data) then
          break
        end
      end
      peer:close()
    end)
  end
end)
assert(loop:loop())
