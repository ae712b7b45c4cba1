-- The fixture of the tests of `net`: connected streams of each kind, broken streams, and the number
-- of open descriptors. Its tests run on the machine's clock, with real sockets.

local check = require "check"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net

local sockets = {}

-- How much the kernel holds in each direction. By itself it takes up to net.ipv4.tcp_wmem and
-- tcp_rmem, on some machines tens of megabytes, and a test cannot know what is too much.
local bounded = { send_buffer = 128 << 10, receive_buffer = 128 << 10 }

local function connected(address)
  local listener <close> = assert(net.listen(address))
  local client = assert(net.connect(listener:address()))
  local server = assert(listener:accept())
  return client:set(bounded), server:set(bounded)
end

sockets.kinds = {
  tcp = function() return connected "127.0.0.1:0" end,
  ["tcp on IPv6"] = function() return connected "[::1]:0" end,
  unix = function() return connected("unix:@orrery-test-" .. tostring({}):match "0x%x+") end,
  pair = function() return assert(net.pair()) end,
}

-- A machine may have no IPv6.
local v6 = net.listen "[::1]:0"
if v6 then
  v6:close()
else
  sockets.kinds["tcp on IPv6"] = nil
end

local names = {}
for name in pairs(sockets.kinds) do
  names[#names + 1] = name
end
table.sort(names)

-- Two connected TCP streams.
sockets.tcp = sockets.kinds.tcp

-- A test for each kind of stream: `fn` gets two connected streams, which are closed in the end.
function sockets.test(name, fn)
  for _, kind in ipairs(names) do
    check.test(name .. " (" .. kind .. ")", function()
      local a, b = sockets.kinds[kind]()
      local _ <close> = a
      local _ <close> = b
      fn(a, b, kind)
    end)
  end
end

-- A stream to a peer that has sent `text`, and then resets the connection: another process, which
-- ends with input that it has not read.
function sockets.broken(text)
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local port = listener:address():match "%d+$"
  local command = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/%s; printf \"%s\" >&3; read -n 1 -u 3'"
  local child = io.popen(command:format(port, text or ""))
  local stream = assert(listener:accept())
  assert(stream:write "unread")
  child:close() -- waits for its end
  return stream
end

-- The descriptors that the process has open: a set of numbers, each with the file behind it.
function sockets.descriptors()
  local open = {}
  for descriptor = 0, 255 do
    local info = io.open("/proc/self/fdinfo/" .. descriptor)
    if info then
      open[descriptor .. " of file " .. (info:read("a"):match "ino:%s*(%d+)" or "?")] = true
      info:close()
    end
  end
  return open
end

-- Waits until nothing is open that was not open before. What a task of the test leaves open makes
-- the test fail at its time limit; a lookup that was given up has its files open a little longer.
function sockets.closed_since(before, what)
  local function find_new()
    for descriptor in pairs(sockets.descriptors()) do
      if not before[descriptor] then return descriptor end
    end
  end
  for _ = 1, 2000 do
    if not find_new() then return end
    async.sleep(1)
  end
  check.equal(find_new(), nil, "a descriptor that is open " .. (what or "in the end"))
end

-- Compares nil and an error with what is expected; returns the error.
function sockets.fails(code, value, err, ...)
  check.equal(value, nil, "the value")
  check.equal(err and err.code, code, "the code")
  check.equal(select("#", ...), 0, "more results")
  return err
end

-- Starts a task that writes more than the kernel takes, and waits. Returns it.
function sockets.stuck_writer(stream, bytes)
  local task = async.run("writer", function()
    return stream:write(string.rep("x", bytes or 16 << 20))
  end)
  check.equal(task:status(), "awaiting", "a writer whose peer does not read")
  return task
end

return sockets
