-- A TCP proxy: passes every connection on to another address, both ways, and counts the bytes.
--
--     orrery examples/proxy.lua LISTEN TARGET     such as: 127.0.0.1:8080 example.org:80
--
-- Each direction is a copy that the kernel makes where it can; none of the bytes become strings of
-- Lua. The end of one direction is passed on, and the other direction goes on: half-open
-- connections stay half-open. If either side breaks, the scope ends both.

local orrery = require "orrery"
local async, net = orrery.async, orrery.net

local LISTEN, TARGET = ...
if not TARGET then
  io.stderr:write("usage: orrery proxy.lua LISTEN TARGET\n")
  os.exit(2)
end

io.stdout:setvbuf("line")

-- Copies up to the end of the input, and passes that on. Raises an error.
local function pass(from, to)
  local bytes = assert(net.copy(from, to))
  to:shutdown()
  return bytes
end

local function handle(client)
  local peer = client:peer()
  local target <close>, err = async.with_timeout(10000, net.connect, TARGET)
  if not target then
    print(("%s: %s"):format(peer, err))
    return
  end
  local ok, result = pcall(async.scope, function()
    local up, down = async.run("up", pass, client, target), async.run("down", pass, target, client)
    return ("%d bytes there, %d bytes back"):format(up:wait(), down:wait())
  end)
  print(("%s: %s"):format(peer, result))
  if not ok and async.is_closing() then
    error(result, 0)
  end
end

local server = assert(net.serve(LISTEN, handle))
print(("proxy at %s for %s"):format(server:address(), TARGET))
