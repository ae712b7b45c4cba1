-- Simulated networks: testing.network, and `net` on a virtual clock.

local check = require "check"
local orrery = require "orrery"
local async, net, testing = orrery.async, orrery.net, orrery.testing
local test, equal, note = check.test, check.equal, check.note

-- A server that answers each line with its upper case, until its peer ends.
local function shout(listener)
  while true do
    local peer = listener:accept()
    if not peer then
      return
    end
    async.run(function()
      local stream <close> = peer
      for line in stream:lines() do
        assert(stream:write(line:upper(), "\n"))
      end
    end)
  end
end

-- Runs `client` on a host of its own, with a server on "main:80".
local function with_server(network, client)
  local listener <close> = assert(net.listen("0.0.0.0:80"))
  local server = async.run(shout, listener)
  async.await(network:host("client", client))
  listener:close()
  async.await(server)
end

-- --- Without options -----------------------------------------------------------------------------

test("on a virtual clock, net is a network in memory", function()
  local listener <close> = assert(net.listen("127.0.0.1:8080"))
  equal(listener:address(), "127.0.0.1:8080")
  local one <close> = assert(net.connect("localhost:8080"))
  local other <close> = assert(listener:accept())
  equal(one:peer(), "127.0.0.1:8080")
  one:write("hello")
  equal(other:read(), "hello")
  equal(check.elapsed(), 0)
end)

test("a refused connection says how to get real sockets", function()
  local stream, err = net.connect("127.0.0.1:80")
  equal(stream, nil)
  equal(err.code, "ECONNREFUSED")
  check.truthy(err.message:find("real = true", 1, true))
  stream, err = net.connect("db:5432")
  equal(stream, nil)
  equal(err.code, "ENOENT")
  check.truthy(err.message:find("real = true", 1, true))
end)

test("a test that asks for real sockets gets them", function()
  local listener <close> = assert(net.listen("127.0.0.1:0", { real = true }))
  local refused = net.connect(listener:address())
  equal(refused, nil)
  local stream <close> = assert(net.connect(listener:address(), { real = true }))
  equal(stream:peer(), listener:address())
end)

test("pairs, pipes and datagrams are simulated, too", function()
  local a, b = net.pair()
  a:write("x")
  equal(b:read(), "x")
  a:close()
  b:close()
  local reader, writer = net.pipe()
  writer:write("y")
  writer:close()
  equal(reader:read_all(), "y")
  reader:close()
  local here <close> = assert(net.udp("127.0.0.1:53"))
  local there <close> = assert(net.udp { peer = "127.0.0.1:53" })
  there:send("z")
  local data, from = here:receive()
  equal(data, "z")
  equal(from, there:address())
end)

-- --- Delays --------------------------------------------------------------------------------------

test("latency delays each way, and costs no real time", function()
  with_server(testing.network { latency = 50 }, function()
    local stream <close> = assert(net.connect("main:80"))
    note(check.elapsed())
    stream:write("hello\n")
    note(stream:read_line(), check.elapsed())
  end)
  check.notes "100; HELLO 200"
end)

test("jitter adds to the latency", function()
  with_server(testing.network { latency = 50, jitter = 10 }, function()
    local stream <close> = assert(net.connect("main:80"))
    local before = check.elapsed()
    stream:write("hello\n")
    stream:read_line()
    local took = check.elapsed() - before
    check.truthy(took >= 100 and took <= 120, "a round trip of " .. took)
    check.truthy(took ~= 100, "jitter")
  end)
end)

test("bandwidth bounds how fast bytes arrive", function()
  local network = testing.network { bandwidth = 1000 }
  local listener <close> = assert(net.listen("0.0.0.0:80"))
  local sender = network:host("client", function()
    local stream <close> = assert(net.connect("main:80"))
    stream:write(("x"):rep(5000))
  end)
  local stream <close> = assert(listener:accept())
  equal(#stream:read_all(), 5000)
  local took = check.elapsed()
  check.truthy(took >= 5000 and took < 5200, "5,000 bytes at 1,000 a second take " .. took)
  async.await(sender)
end)

test("a writer waits while the window is full", function()
  testing.network { window = 1000 }
  local listener <close> = assert(net.listen("127.0.0.1:80"))
  local one <close> = assert(net.connect("127.0.0.1:80"))
  local other <close> = assert(listener:accept())
  local writing = async.run(function()
    one:write(("x"):rep(3000))
    note "written"
    one:shutdown()
  end)
  async.sleep(1000)
  note "reads"
  equal(#other:read_all(), 3000)
  async.await(writing)
  check.notes "reads; written"
end)

-- --- Faults --------------------------------------------------------------------------------------

test("short reads and writes change no byte", function()
  with_server(testing.network { seed = 3, short_reads = 0.7, short_writes = 0.7 }, function()
    local stream <close> = assert(net.connect("main:80"))
    local text = ("abcdefghij"):rep(50)
    stream:write(text, "\n")
    equal(stream:read_line(), text:upper())
  end)
end)

test("short reads are short", function()
  testing.network { seed = 3, short_reads = 1 }
  local a, b = net.pair()
  a:write(("x"):rep(1000))
  check.truthy(#b:read() < 1000)
  a:close()
  b:close()
end)

test("resets break connections", function()
  local network = testing.network { seed = 5, resets = 0.05 }
  local listener <close> = assert(net.listen("0.0.0.0:80"))
  local codes = {}
  async.run(function()
    local stream = listener:accept()
    stream:write("ready\n")
    local _, err
    repeat
      _, err = stream:read()
    until err
    codes[#codes + 1] = err.code
    stream:close()
  end)
  async.await(network:host("client", function()
    local stream <close> = assert(net.connect("main:80"))
    stream:read_line()
    local _, err
    repeat
      _, err = stream:write("x")
    until err
    codes[#codes + 1] = err.code
  end))
  async.sleep(1)
  equal(#codes, 2)
  check.truthy(table.concat(codes, " "):find("ECONNRESET", 1, true))
end)

test("network:reset breaks one connection, on both ends", function()
  local network = testing.network()
  local listener <close> = assert(net.listen("127.0.0.1:80"))
  local one <close> = assert(net.connect("127.0.0.1:80"))
  local other <close> = assert(listener:accept())
  network:reset(one)
  local data, err = one:read()
  note(data, err.code)
  data, err = other:read()
  note(data, err.code)
  check.notes "nil ECONNRESET; nil ECONNRESET"
end)

test("a partition holds bytes back until it is healed", function()
  local network = testing.network()
  with_server(network, function()
    local stream <close> = assert(net.connect("main:80"))
    network:partition("main", "client")
    stream:write("hello\n")
    local in_time = async.move_on_after(60000, stream.read_line, stream)
    note(in_time)
    network:heal()
    note(stream:read_line())
  end)
  check.notes "nil; HELLO"
end)

test("a connect waits behind a partition", function()
  local network = testing.network()
  with_server(network, function()
    network:partition("main")
    local in_time = async.move_on_after(60000, net.connect, "main:80")
    note(in_time)
    network:heal()
    local stream <close> = assert(net.connect("main:80"))
    note(stream:is_open())
  end)
  check.notes "nil; true"
end)

test("datagrams are lost behind a partition", function()
  local network = testing.network()
  local here <close> = assert(net.udp("0.0.0.0:53"))
  network:partition("client", "main")
  async.await(network:host("client", function()
    local socket <close> = assert(net.udp { peer = "main:53" })
    socket:send("lost")
    network:heal()
    socket:send("arrives")
  end))
  equal((here:receive()), "arrives")
end)

-- --- Hosts ---------------------------------------------------------------------------------------

test("a task and the tasks below it are on their host", function()
  local network = testing.network()
  local db = network:host("db", function()
    local listener <close> = async.run(function()
      return assert(net.listen("0.0.0.0:5432"))
    end):wait()
    local stream <close> = assert(listener:accept())
    stream:write("I am ", listener:address())
  end)
  local stream <close> = assert(net.connect("db:5432"))
  equal(stream:read_all(), "I am 0.0.0.0:5432")
  equal(net.connect("main:5432"), nil)
  async.await(db)
end)

test("network:host returns a task with the results of its function", function()
  local task = testing.network():host("db", function(...)
    return "got", ...
  end, 1, 2)
  local a, b, c = async.await(task)
  note(task.name, a, b, c)
  check.notes "db got 1 2"
end)

test("a network ends with its test, part 1", function()
  testing.network { latency = 1000 }
end)

test("a network ends with its test, part 2", function()
  local listener <close> = assert(net.listen("127.0.0.1:80"))
  local stream <close> = assert(net.connect(listener:address()))
  equal(check.elapsed(), 0)
  equal(stream:is_open(), true)
end)

-- --- Seeds ---------------------------------------------------------------------------------------

-- What happens, and when, in a busy network with this seed.
local function trace(seed)
  local lines = {}
  local network <close> = testing.network {
    seed = seed, latency = 5, jitter = 20, short_reads = 0.3, short_writes = 0.3, resets = 0.02,
  }
  local start = testing.now()
  local listener <close> = assert(net.listen("0.0.0.0:80"))
  local server = async.run(shout, listener)
  local clients = {}
  for i = 1, 5 do
    clients[i] = network:host("client" .. i, function()
      local stream <close> = assert(net.connect("main:80"))
      for n = 1, 10 do
        local done, err = stream:write(("line %d\n"):format(n))
        local line = done and stream:read_line()
        lines[#lines + 1] = ("%d %s %s %.6f"):format(i, line, err and err.code, testing.now() - start)
        if not line then
          return
        end
      end
    end)
  end
  for _, client in ipairs(clients) do
    async.pawait(client)
  end
  listener:close()
  async.pawait(server)
  return table.concat(lines, "\n")
end

test("the same seed gives the same run, another seed another", function()
  local first = trace(42)
  equal(trace(42), first)
  check.truthy(trace(43) ~= first)
end)

-- --- Misuse --------------------------------------------------------------------------------------

test("wrong options are named", function()
  check.raises("did you mean 'latency'", testing.network, { latncy = 1 })
  check.raises("option resets is 2, expected a probability from 0 to 1", testing.network, { resets = 2 })
  check.raises("option latency is x, expected milliseconds, from 0", testing.network, { latency = "x" })
end)

test("wrong arguments are named", function()
  local network = testing.network()
  check.raises("expected a name and a function, got a string and a nil", network.host, network, "db")
  check.raises("it is each host's name for itself", network.partition, network, "localhost")
  check.raises("expected two hosts, got \"a\" twice", network.partition, network, "a", "a")
  network:close()
  check.raises("this network has ended", network.heal, network)
end)
