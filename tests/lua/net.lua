-- Listeners, connecting, pairs, pipes, copies, and the misuse of `net`.

local check = require "check"
local sockets = require "sockets"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy
local fails = sockets.fails

-- An address of this machine where nobody listens.
local function nobody()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  return listener:address()
end

--------------------------------------------------------------------------------------- connecting

test("a connection to nobody is refused, and says who and what", function()
  local address = nobody()
  local err = fails("ECONNREFUSED", net.connect(address))
  equal(err.message, "Connection refused")
  equal(err.operation, "connect")
  equal(err.address, address)
  equal(tostring(err), "connect " .. address .. ": Connection refused (ECONNREFUSED)")
end)

test("a path that is not there is an error", function()
  equal(fails("ENOENT", net.connect "unix:/nonexistent/socket").address, "unix:/nonexistent/socket")
  fails("ECONNREFUSED", net.connect "unix:@orrery-nobody-listens-here")
end)

test("localhost is found and connected to", function()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local client <close> = assert(net.connect("localhost:" .. listener:address():match "%d+$"))
  equal(client:peer(), listener:address())
end)

test("options of connect are applied", function()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local client <close> = assert(net.connect(listener:address(), {
    local_address = "127.0.0.2:0", nodelay = false, keepalive = 10, send_buffer = 8192, receive_buffer = 8192,
  }))
  truthy(client:address():find "^127%.0%.0%.2:", client:address())
  local server <close> = assert(listener:accept())
  equal(server:peer(), client:address())
end)

test("misuse of connect raises and names the script's line", function()
  local err = raises("net.connect: expected an address such as \"127.0.0.1:80\", got nil", function() net.connect() end)
  truthy(err:find "net%.lua:%d+: net%.connect", err)
  raises("got number", net.connect, 80)
  for _, address in ipairs { "", "localhost", "127.0.0.1", "127.0.0.1:70000", "[::1]", "unix:", ":::", "a b:1", "x:\0" } do
    raises("net.connect: bad address", net.connect, address)
  end
  raises("the path is longer than the 107 bytes", net.connect, "unix:/" .. string.rep("x", 200))
  raises("net.connect: unknown option 'no_delay'; did you mean 'nodelay'?", net.connect, "127.0.0.1:1", { no_delay = 1 })
  raises("net.connect: expected a table of options after the address, got a string", net.connect, "127.0.0.1:1", "x")
  raises("option nodelay is 1, expected true or false", net.connect, "127.0.0.1:1", { nodelay = 1 })
  raises("an IPv6 address needs brackets: \"[::1]:port\"", net.connect, "::1:80")
  raises("it has a zero byte after \"127.0.0.1:1\"", net.connect, "127.0.0.1:1\0x")
  raises("option keepalive is 0, expected a whole number from 1 to 32767", net.connect, "127.0.0.1:1", { keepalive = 0 })
  raises("expected an IP address here, not a name", net.connect, "127.0.0.1:1", { local_address = "localhost:0" })
end)

test("options are read once, before the wait", function()
  local asked = 0
  local options = setmetatable({}, { __index = function(_, key)
    asked = asked + 1
    return key == "nodelay" and (asked > 100 and "changed" or true) or nil
  end })
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local client <close> = assert(net.connect(listener:address(), options))
  equal(client:is_open(), true)
  truthy(asked < 10, "questions: " .. asked)
end)

---------------------------------------------------------------------------------------- listening

test("a listener has an address with a port, and closes", function()
  local listener = assert(net.listen "127.0.0.1:0")
  truthy(listener:address():find "^127%.0%.0%.1:[1-9]%d*$", listener:address())
  equal(tostring(listener), "listener (" .. listener:address() .. ")")
  equal(listener:is_open(), true)
  listener:close()
  listener:close()
  equal(listener:is_open(), false)
  equal(tostring(listener), "listener (closed)")
  equal(fails("ECANCELED", listener:accept()).message, "closed")
  equal(fails("ECANCELED", listener:address()).operation, "address")
end)

test("an address in use is an error", function()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local err = fails("EADDRINUSE", net.listen(listener:address()))
  equal(err.operation, "listen")
  equal(err.address, listener:address())
end)

test("an address of another machine is an error", function()
  fails("EADDRNOTAVAIL", net.listen "192.0.2.1:0")
end)

test("connections are accepted in the order of their arrival, for tasks in theirs", function()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local order = {}
  async.scope(function()
    for i = 1, 3 do
      async.run(function()
        local server <close> = assert(listener:accept())
        order[#order + 1] = i .. server:read_all()
      end)
    end
    for i = 1, 3 do
      local client <close> = assert(net.connect(listener:address()))
      client:write("client ", i)
      client:shutdown()
      client:read()
    end
  end)
  table.sort(order)
  equal(table.concat(order, "; "), "1client 1; 2client 2; 3client 3")
end)

test("tasks that accept get ECANCELED when the listener is closed", function()
  local listener = assert(net.listen "127.0.0.1:0")
  local first = async.run(function() return listener:accept() end)
  local second = async.run(function() return listener:accept() end)
  listener:close()
  equal(fails("ECANCELED", first:wait()).operation, "accept")
  fails("ECANCELED", second:wait())
end)

test("two listeners share a port if both ask for it", function()
  local one <close> = assert(net.listen("127.0.0.1:0", { reuse_port = true }))
  local two <close> = assert(net.listen(one:address(), { reuse_port = true }))
  equal(two:address(), one:address())
end)

test("misuse of listen raises", function()
  raises("net.listen: bad address \"x\"", net.listen, "x")
  raises("net.listen: unknown option 'back_log'; did you mean 'backlog'?", net.listen, "127.0.0.1:0", { back_log = 1 })
  raises("option reuse_port is 1, expected true or false", net.listen, "127.0.0.1:0", { reuse_port = 1 })
  raises("net.listen: unknown option 'number'", net.listen, "127.0.0.1:0", { "x" })
end)

test("a variable can close its listener", function()
  local address
  do
    local listener <close> = assert(net.listen "127.0.0.1:0")
    address = listener:address()
  end
  fails("ECONNREFUSED", net.connect(address))
end)

---------------------------------------------------------------------------------- pairs and pipes

test("a pair is connected both ways", function()
  local a, b = net.pair()
  local _ <close> = a
  local _ <close> = b
  a:write "to b"
  b:write "to a"
  equal(a:read(), "to a")
  equal(b:read(), "to b")
end)

test("a pipe goes one way", function()
  local reader, writer = net.pipe()
  local _ <close> = reader
  local _ <close> = writer
  writer:write("x\n", 2)
  equal(reader:read_line(), "x")
  writer:close()
  equal(reader:read_all(), "2")
  equal(reader:read(), nil)
end)

test("the wrong end of a pipe says so", function()
  local reader, writer = net.pipe()
  local _ <close> = reader
  local _ <close> = writer
  equal(fails("EBADF", reader:write "x").message, "the stream has no output")
  equal(fails("EBADF", writer:read()).message, "the stream has no input")
  fails("EBADF", writer:read_line())
  equal(reader:is_open(), true)
end)

test("a pipe without a reader is an error, and the process lives", function()
  local reader, writer = net.pipe()
  local _ <close> = writer
  reader:close()
  fails("EPIPE", writer:write "x")
  fails("EPIPE", writer:write "x")
end)

test("a full pipe makes its writer wait", function()
  local reader, writer = net.pipe()
  local _ <close> = reader
  local _ <close> = writer
  local task = sockets.stuck_writer(writer, 1 << 20)
  equal(#reader:read_exactly(1 << 20), 1 << 20)
  equal(task:wait(), writer)
end)

--------------------------------------------------------------------------------------------- copy

-- A copy between two connections: what goes into `source` comes out of `target`.
local function copying(fn)
  local source, from = sockets.tcp()
  local to, target = sockets.tcp()
  local _ <close> = source
  local _ <close> = from
  local _ <close> = to
  local _ <close> = target
  fn(source, from, to, target)
end

test("copy moves everything and counts it", function()
  copying(function(source, from, to, target)
    local text = string.rep("0123456789", 200000)
    async.scope(function()
      async.run(function()
        source:write(text)
        source:shutdown()
      end)
      async.run(function()
        equal(net.copy(from, to), #text)
        equal(to:is_open(), true)
        to:write "after"
        to:shutdown()
      end)
      truthy(target:read_all() == text .. "after", "the bytes as they were")
    end)
  end)
end)

test("copy begins with what was read ahead", function()
  copying(function(source, from, to, target)
    source:write "line\nrest"
    source:shutdown()
    equal(from:read_line(), "line")
    equal(net.copy(from, to), 4)
    to:shutdown()
    equal(target:read_all(), "rest")
  end)
end)

test("copy of nothing is 0 bytes", function()
  copying(function(source, from, to)
    source:shutdown()
    equal(net.copy(from, to), 0)
    equal(to:is_open(), true)
  end)
end)

test("copy to a peer that is gone says how much went through", function()
  copying(function(source, from, to, target)
    target:close()
    local value, err, bytes
    repeat
      source:write "x"
      local task = async.run(function() value, err, bytes = net.copy(from, to) end)
      async.sleep(1)
      local done = task:status() == "completed"
      task:close()
      task:pwait()
    until done
    equal(value, nil)
    truthy(err.code == "EPIPE" or err.code == "ECONNRESET", err.code)
    equal(err.operation, "copy")
    equal(err.address, to:peer(), "the side that failed")
    equal(math.type(bytes), "integer")
  end)
end)

test("copy from a connection that is reset says how much went through", function()
  local from <close> = sockets.broken "some"
  local to, target = sockets.tcp()
  local _ <close> = to
  local _ <close> = target
  local value, err, bytes = net.copy(from, to)
  equal(value, nil)
  equal(err.code, "ECONNRESET")
  equal(err.address, from:peer(), "the side that failed")
  equal(bytes, 4)
  to:shutdown()
  equal(target:read_all(), "some")
end)

test("a copy is the reader of the one and the writer of the other", function()
  copying(function(source, from, to, target)
    local task = async.run(function() return net.copy(from, to) end)
    raises("another task reads from this stream", from.read, from)
    raises("another task writes to this stream", to.write, to, "x")
    raises("net.copy: another task reads from the first stream", net.copy, from, to)
    target:write "back"
    equal(to:read(), "back", "the other direction is free")
    source:shutdown()
    equal(task:wait(), 0)
  end)
end)

test("a copy whose streams are closed ends with an error", function()
  for _, which in ipairs { "from", "to" } do
    copying(function(_, from, to)
      local task = async.run(function() return net.copy(from, to) end)
      local closed = which == "from" and from or to
      closed:close()
      local value, err, bytes = task:wait()
      equal(value, nil)
      equal(err.code, "ECANCELED")
      equal(bytes, 0)
    end)
  end
end)

test("a copy to a peer that has left is an error, however many pieces wait for it", function()
  for _ = 1, 5 do
    local a, b = sockets.tcp()
    local ours, theirs = net.pair()
    for _ = 1, 60 do ours:write(string.rep("x", 1000)) end -- each a piece of its own
    ours:shutdown()
    a:close()
    local value, err = net.copy(theirs, b)
    equal(value, nil)
    truthy(err.code == "EPIPE" or err.code == "ECONNRESET", err.code)
    for _, stream in ipairs { b, ours, theirs } do stream:close() end
  end
end)

test("a connection to every address of this machine has the peer that the kernel chose", function()
  local listener <close> = assert(net.listen "0.0.0.0:0")
  local port = listener:address():match "%d+$"
  local client <close> = assert(net.connect("0.0.0.0:" .. port))
  equal(client:peer(), "127.0.0.1:" .. port)
end)

test("a connection to itself is refused, however the address is written", function()
  for _, host in ipairs { "127.0.0.1", "0.0.0.0" } do
    local listener = assert(net.listen "127.0.0.1:0")
    local port = listener:address():match "%d+$"
    listener:close()
    local stream, err = net.connect(host .. ":" .. port, { local_address = "127.0.0.1:" .. port })
    equal(stream, nil)
    equal(err.code, "ECONNREFUSED")
  end
end)

test("a copy of a stream to itself echoes", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local task = async.run(function() return net.copy(b, b) end)
  a:write "echo"
  equal(a:read_exactly(4), "echo")
  a:shutdown()
  equal(task:wait(), 4)
end)

test("a copy of a stream to itself echoes through splices and buffers, and ends with its stream", function()
  for _, ends in ipairs { "peer", "stream", "cancelled" } do
    local a, b = sockets.kinds.pair()
    local _ <close> = a
    local _ <close> = b
    local task = async.run(function() return net.copy(b, b) end)
    for i = 1, 3 do
      a:write("echo ", i, "\n")
      equal(a:read_line(), "echo " .. i)
    end
    if ends == "peer" then
      a:close()
      equal(task:wait(), 21)
    elseif ends == "stream" then
      b:close()
      local value, err, bytes = task:wait()
      equal(value, nil)
      equal(err.code, "ECANCELED")
      equal(bytes, 21)
    else
      task:close()
      task:pwait()
      a:write "then"
      equal(b:read(), "then")
    end
  end
end)

test("a copy that is cancelled in the middle loses nothing", function()
  copying(function(source, from, to, target)
    local size = 32 << 20
    local text = string.rep("0123456789abcdef", size // 16)
    local writer = async.run(function() source:write(text) source:shutdown() end)
    local copy = async.run(function() return net.copy(from, to) end)
    local head = assert(target:read_exactly(1 << 20))
    copy:close()
    local ok, err = copy:pwait()
    equal(ok, false)
    equal(err, "closed")
    equal(to:is_open(), true)
    -- What is on its way to the target comes first; then the rest of the source.
    async.scope(function()
      async.run(function()
        assert(net.copy(from, to))
        to:shutdown()
      end)
      local rest = assert(target:read_all(size))
      truthy(head .. rest == text, "the bytes as they were")
    end)
    writer:wait()
  end)
end)

test("misuse of copy raises", function()
  raises("net.copy: expected two streams", net.copy)
  local a, b = net.pair()
  local _ <close> = a
  local _ <close> = b
  raises("net.copy: expected two streams", net.copy, a)
  raises("net.copy: expected two streams", net.copy, a, io.stdout)
end)

----------------------------------------------------------------------------------------- the tree

test("the tree of tasks says what a task waits for, and from whom", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local socket <close> = assert(net.udp "127.0.0.1:0")
  local tasks = {
    async.run("reader", function() return a:read() end),
    sockets.stuck_writer(a),
    async.run("acceptor", function() return listener:accept() end),
    async.run("receiver", function() return socket:receive() end),
  }
  local tree
  repeat
    async.checkpoint()
    tree = async.inspect_tree()
  until not tree:find("writer: ready", 1, true)
  for _, line in ipairs {
    "a read from tcp " .. a:peer(), "a write to tcp " .. a:peer(), "a connection on tcp " .. listener:address(),
    "a message from udp",
  } do
    truthy(tree:find(line, 1, true), line .. " in\n" .. tree)
  end
  for _, task in ipairs(tasks) do
    task:close()
    task:pwait()
  end
end)

------------------------------------------------------------------------------------------ outside

test("a wait needs a task that can be suspended", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local ok, err = pcall(table.sort, { 1, 2 }, function() return a:read() end)
  equal(ok, false)
  truthy(tostring(err):find "cannot wait here: 'table.sort', a C function, is on the stack", tostring(err))
  b:write "x"
  equal(a:read(), "x", "the stream after that")
end)
