-- Datagram sockets: messages and addresses, connected sockets, groups.

local check = require "check"
local sockets = require "sockets"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy
local fails = sockets.fails

local function two(address)
  return assert(net.udp(address or "127.0.0.1:0")), assert(net.udp(address or "127.0.0.1:0"))
end

test("messages go to an address and come from one", function()
  for _, address in ipairs { "127.0.0.1:0", sockets.kinds["tcp on IPv6"] and "[::1]:0" } do
    local a, b = two(address)
    local _ <close> = a
    local _ <close> = b
    equal(a:send("hello", b:address()), a)
    local data, from = b:receive()
    equal(data, "hello")
    equal(from, a:address())
    b:send("back", from)
    equal(a:receive(), "back")
  end
end)

test("messages keep their bounds, also empty ones and zeros", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  for _, message in ipairs { "one", "", "t\0wo\0", string.rep("x", 9000) } do
    a:send(message, b:address())
  end
  for _, message in ipairs { "one", "", "t\0wo\0", string.rep("x", 9000) } do
    equal(b:receive(), message)
  end
end)

test("the longest message passes, and a longer one is an error", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  equal(a:send(string.rep("x", 65507), b:address()), a)
  equal(#b:receive(), 65507)
  local err = fails("EMSGSIZE", a:send(string.rep("x", 65508), b:address()))
  equal(err.operation, "send")
  equal(err.address, b:address())
  a:send("after", b:address())
  equal(b:receive(), "after")
end)

test("receive waits for a message", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  local task = async.run(function() return b:receive() end)
  equal(task:status(), "awaiting")
  a:send("x", b:address())
  equal(task:wait(), "x")
end)

test("a Unix socket without a name has an address that says so", function()
  local name = "unix:@orrery-nameless-" .. tostring({}):match "0x%x+"
  local a <close> = assert(net.udp(name))
  local b <close> = assert(net.udp { peer = name })
  b:send "x"
  local data, from = a:receive()
  equal(data, "x")
  equal(from, "unix:")
end)

test("the path of a Unix socket goes with it, and one that was left behind is taken", function()
  local path = os.tmpname()
  os.remove(path)
  local a = assert(net.udp("unix:" .. path))
  fails("EADDRINUSE", net.udp("unix:" .. path))
  a:close()
  equal(io.open(path), nil)
  net.udp("unix:" .. path):close()
end)

test("a connected socket sends to its peer and hears only that", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  local c <close> = assert(net.udp { peer = a:address() })
  equal(c:peer(), a:address())
  fails("ENOTCONN", a:peer())
  b:send("stranger", c:address())
  equal(c:send "hello", c)
  local data, from = a:receive()
  equal(data, "hello")
  equal(from, c:address())
  a:send("answer", from)
  equal(c:receive(), "answer")
end)

test("a connected socket hears that nobody listens", function()
  local address
  do
    local gone <close> = assert(net.udp "127.0.0.1:0")
    address = gone:address()
  end
  local c <close> = assert(net.udp { peer = address })
  c:send "hello"
  local err = fails("ECONNREFUSED", c:receive())
  equal(err.operation, "receive")
  truthy(c:is_open())
end)

test("send needs an address unless the socket is connected", function()
  local a <close> = assert(net.udp "127.0.0.1:0")
  fails("EDESTADDRREQ", a:send "x")
  raises("datagram:send: bad address \"x\"", a.send, a, "x", "x")
  raises("expected an IP address here, not a name", a.send, a, "x", "localhost:1")
  raises("string expected, got no value", a.send, a)
  raises("string expected, got table", a.send, a, {})
end)

test("a second receiver raises at once", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  local task = async.run(function() return a:receive() end)
  local err = raises("datagram:receive: another task does this already", function() a:receive() end)
  truthy(err:find "net_datagrams%.lua:%d+:", err)
  b:send("x", a:address())
  equal(task:wait(), "x")
end)

test("close is idempotent and ends waits", function()
  local a <close> = assert(net.udp "127.0.0.1:0")
  local address = a:address()
  equal(tostring(a), "datagram socket (" .. address .. ")")
  local task = async.run(function() return a:receive() end)
  a:close()
  a:close()
  equal(fails("ECANCELED", task:wait()).operation, "receive")
  equal(a:is_open(), false)
  equal(tostring(a), "datagram socket (closed)")
  fails("ECANCELED", a:receive())
  fails("ECANCELED", a:send("x", address))
  fails("ECANCELED", a:address())
  fails("ECANCELED", a:join "239.1.2.3")
  fails("ECANCELED", a:set { multicast_hops = 1 })
end)

test("a cancelled receive leaves the message", function()
  local a, b = two()
  local _ <close> = a
  local _ <close> = b
  local task = async.run(function() return a:receive() end)
  b:send("kept", a:address())
  task:close()
  equal(select(2, task:pwait()), "closed")
  equal(a:receive(), "kept")
  raises("timeout", async.with_timeout, 1, a.receive, a)
  b:send("next", a:address())
  equal(a:receive(), "next")
end)

test("an address in use is an error", function()
  local a <close> = assert(net.udp "127.0.0.1:0")
  equal(fails("EADDRINUSE", net.udp(a:address())).address, a:address())
end)

test("misuse of udp raises", function()
  local err = raises("net.udp: expected an address, or the option peer", function() net.udp() end)
  truthy(err:find "net_datagrams%.lua:%d+:", err)
  raises("net.udp: expected an address, or the option peer", net.udp, {})
  raises("net.udp: bad address \"x\"", net.udp, "x")
  raises("net.udp: option peer: bad address \"x\"", net.udp, { peer = "x" })
  raises("net.udp: unknown option 'peers'; did you mean 'peer'?", net.udp, { peers = "127.0.0.1:1" })
end)

test("a name is looked up for a peer", function()
  local a <close> = assert(net.udp "127.0.0.1:0")
  local c = net.udp { peer = "localhost:" .. a:address():match "%d+$" }
  truthy(c, "a socket")
  c:close()
end)

------------------------------------------------------------------------------------------ groups

test("members of a group get its messages, until they leave", function()
  local member <close> = assert(net.udp("0.0.0.0:0", { reuse = true }))
  local sender <close> = assert(net.udp "127.0.0.1:0")
  local port = member:address():match "%d+$"
  local ok, err = member:join("239.77.7.7", "lo")
  if not ok then
    truthy(err.code == "ENODEV", tostring(err)) -- a machine without multicast
    return
  end
  equal(ok, member)
  equal(sender:set { multicast_hops = 1, multicast_loop = true }, sender)
  equal(sender:send("to all", "239.77.7.7:" .. port), sender)
  equal(member:receive(), "to all")
  equal(member:leave("239.77.7.7", "lo"), member)
  sender:send("again", "239.77.7.7:" .. port)
  sender:send("direct", "127.0.0.1:" .. port)
  equal(member:receive(), "direct", "after it has left")
  fails("EADDRNOTAVAIL", member:leave("239.77.7.7", "lo"))
end)

test("misuse of groups", function()
  local a <close> = assert(net.udp "127.0.0.1:0")
  raises("datagram:join: there is no network interface \"nonesuch\"", a.join, a, "239.1.2.3", "nonesuch")
  raises("datagram:join: bad address", a.join, a, "nonsense")
  equal(fails("EINVAL", a:join "127.0.0.1").operation, "join")
  raises("datagram:set: unknown option 'hops'", a.set, a, { hops = 1 })
  raises("option multicast_loop is 1, expected true or false", a.set, a, { multicast_loop = 1 })
  raises("option multicast_hops is 256, expected a whole number from 0 to 255", a.set, a, { multicast_hops = 256 })
  equal(a:set { multicast_hops = 0 }, a)
  raises("it has a zero byte after \"239.1.2.3\"", a.join, a, "239.1.2.3\0junk")
end)

------------------------------------------------------------------------------------------- paths

test("sockets on paths exchange messages, and a long one is whole", function()
  local name = "unix:@orrery-datagrams-" .. tostring({}):match "0x%x+" -- both reactors run at once
  local a <close> = assert(net.udp(name .. "-a"))
  local b <close> = assert(net.udp(name .. "-b", { send_buffer = 1 << 20 }))
  b:send("hello", name .. "-a")
  local data, from = a:receive()
  equal(data, "hello")
  equal(from, name .. "-b")
  local long = string.rep("x", 100000)
  if b:send(long, name .. "-a") then
    local got, err = a:receive()
    truthy(got == long or err.code == "EMSGSIZE", "a message is never cut silently")
  end
  b:send("next", name .. "-a")
  equal(a:receive(), "next")
end)
