-- net.serve on real sockets, on the machine's clock: `orrery test --real-time`.
local check = require "check"
local orrery = require "orrery"
local async, net, worker = orrery.async, orrery.net, orrery.worker
local test, equal, raises, truthy, note = check.test, check.equal, check.raises, check.truthy, check.note

local LOCAL = "127.0.0.1:0"

local function connect(server)
  return assert(net.connect(server:address()))
end

-- An object whose end notes the word, and sets the event.
local function at_end(word, event)
  return setmetatable({}, { __close = function(_, err)
    note(word, tostring(err))
    if event then
      event:set()
    end
  end })
end

local function echo(stream)
  for line in stream:lines() do
    stream:write(line, "\n")
  end
end

-- Waits until the server serves this many connections.
local function await_connections(server, count)
  while server:connections() ~= count do
    async.sleep(1)
  end
end

-- --- Serving -------------------------------------------------------------------------------------

test("a handler is called for each connection", function()
  local server <close> = assert(net.serve(LOCAL, echo))
  for i = 1, 3 do
    local stream <close> = connect(server)
    stream:write(i, "\n")
    equal(stream:read_line(), tostring(i))
  end
end)

test("a server has the address with the port that the kernel chose", function()
  local server <close> = assert(net.serve(LOCAL, echo))
  truthy(tonumber(server:address():match("^127%.0%.0%.1:(%d+)$")) > 0)
  server:stop()
  truthy(server:address():match("^127%.0%.0%.1:%d+$"), "the address after stop")
end)

test("200 connections are served at once", function()
  local server <close> = assert(net.serve(LOCAL, echo))
  local streams = {}
  for i = 1, 200 do
    streams[i] = connect(server)
    streams[i]:write(i, "\n")
  end
  for i = 200, 1, -1 do
    equal(streams[i]:read_line(), tostring(i))
  end
  equal(server:connections(), 200)
  for i = 1, 200 do
    streams[i]:close()
  end
  await_connections(server, 0)
end)

test("a server on a Unix socket serves", function()
  local server <close> = assert(net.serve("unix:@orrery-serve-test", echo))
  local stream <close> = connect(server)
  stream:write("x\n")
  equal(stream:read_line(), "x")
end)

test("a server says what it is", function()
  local server = assert(net.serve(LOCAL, echo))
  local address = server:address()
  equal(tostring(server), "server (" .. address .. ", 0 connections)")
  local _ <close> = connect(server)
  await_connections(server, 1)
  equal(tostring(server), "server (" .. address .. ", 1 connection)")
  server:stop(0)
  equal(tostring(server), "server (" .. address .. ", stopped)")
end)

test("an address that is taken is an error that comes back", function()
  local server <close> = assert(net.serve(LOCAL, echo))
  local second, err = net.serve(server:address(), echo)
  equal(second, nil)
  equal(err.code, "EADDRINUSE")
end)

test("misuse raises, and names the option", function()
  raises("net.serve: expected a function that handles a connection, got nil", net.serve, LOCAL)
  raises("net.serve: unknown option 'max_conections'; did you mean 'max_connections'?", net.serve, LOCAL, echo,
    { max_conections = 1 })
  raises("net.serve: option max_connections: expected a whole number from 1 on, got 0", net.serve, LOCAL, echo,
    { max_connections = 0 })
  raises("net.serve: option cancel_on_eof: expected true or false, got number", net.serve, LOCAL, echo,
    { cancel_on_eof = 1 })
  raises("net.serve: bad address", net.serve, "127.0.0.1", echo)
  local server <close> = assert(net.serve(LOCAL, echo))
  raises("server:stop: expected milliseconds, at least 0, got -1", server.stop, server, -1)
  raises("server:stop: expected a server before the colon, got nil", server.stop)
end)

test("an error of misuse names the script's line", function()
  local _, err = pcall(function()
    net.serve(LOCAL, echo, { threads = 0 })
  end)
  truthy(err:find("serve.lua:%d+: net.serve: option threads"), err)
end)

-- --- The end of a connection ---------------------------------------------------------------------

test("what a handler wrote arrives though it leaves input unread", function()
  local text = string.rep("x", 1000000)
  local server <close> = assert(net.serve(LOCAL, function(stream)
    stream:write(text)
  end))
  local stream <close> = connect(server)
  stream:write(string.rep("unread", 1000))
  equal(#stream:read_all(), #text)
end)

test("a client that goes on sending gets all of the answer", function()
  local server <close> = assert(net.serve(LOCAL, function(stream)
    stream:read_line()
    stream:write("answer\n")
  end))
  local stream <close> = connect(server)
  stream:write("question\n")
  equal(stream:read_line(), "answer")
  equal(stream:read(), nil)
  for _ = 1, 10 do
    assert(stream:write("more\n"))
    async.checkpoint()
  end
  equal(select("#", stream:read()), 1)
end)

test("the end of the input is only that: the handler may still answer", function()
  local server <close> = assert(net.serve(LOCAL, function(stream)
    local question = stream:read_all()
    async.sleep(5)
    stream:write("answer to ", question)
  end))
  local stream <close> = connect(server)
  stream:write("q")
  stream:shutdown()
  equal(stream:read_all(), "answer to q")
end)

test("a handler may close its connection itself", function()
  local server <close> = assert(net.serve(LOCAL, function(stream)
    stream:write("bye")
    stream:close()
  end))
  local stream <close> = connect(server)
  equal(stream:read_all(), "bye")
  await_connections(server, 0)
end)

-- --- A peer that goes away -----------------------------------------------------------------------

-- A client that is gone when the handler writes resets the connection.
local function reset_in(handler, options)
  local ended = async.event()
  local server <close> = assert(net.serve(LOCAL, function(stream)
    local _ <close> = at_end("handler", ended)
    equal(stream:read(), nil)
    stream:write("nobody reads this")
    handler(stream)
  end, options))
  connect(server):close()
  ended:wait()
end

test("a reset cancels a handler that sleeps", function()
  reset_in(function()
    async.sleep(3600000)
  end)
  check.notes "handler closed"
end)

test("a reset cancels a handler that computes, at its next wait", function()
  reset_in(function()
    while true do
      async.checkpoint()
    end
  end)
  check.notes "handler closed"
end)

test("a reset cancels the tasks below the handler", function()
  reset_in(function()
    async.run(function()
      local _ <close> = at_end("child")
      async.sleep(3600000)
    end)
    async.sleep(3600000)
  end)
  check.notes "handler closed; child closed"
end)

test("a reset that a write finds cancels the handler quietly", function()
  reset_in(function(stream)
    while true do
      assert(stream:write(string.rep("x", 100)))
    end
  end)
  check.notes "handler closed"
end)

test("the end of input does not cancel a handler", function()
  local ended, may_end = async.event(), async.event()
  local server <close> = assert(net.serve(LOCAL, function(stream)
    local _ <close> = at_end("handler", ended)
    stream:read()
    may_end:wait()
  end))
  local stream <close> = connect(server)
  stream:shutdown()
  async.sleep(5)
  equal(server:connections(), 1)
  may_end:set()
  ended:wait()
  check.notes "handler nil"
end)

test("with cancel_on_eof the end of input cancels a handler that sleeps", function()
  local ended = async.event()
  local server <close> = assert(net.serve(LOCAL, function()
    local _ <close> = at_end("handler", ended)
    async.sleep(3600000)
  end, { cancel_on_eof = true }))
  local stream <close> = connect(server)
  stream:shutdown()
  ended:wait()
  check.notes "handler closed"
end)

-- --- Stopping ------------------------------------------------------------------------------------

test("stop waits for handlers, and says that all ended by themselves", function()
  local begun = async.event()
  local server = assert(net.serve(LOCAL, function(stream)
    local _ <close> = at_end("handler")
    begun:set()
    stream:write(stream:read_line(), "\n")
  end))
  local stream <close> = connect(server)
  begun:wait()
  async.run(function()
    equal(net.connect(server:address()), nil)
    stream:write("x\n")
    equal(stream:read_line(), "x")
    stream:close()
  end)
  equal(server:stop(60000), true)
  check.notes "handler nil"
end)

test("stop cancels handlers that outlast the grace", function()
  local server = assert(net.serve(LOCAL, function()
    local _ <close> = at_end("handler")
    async.sleep(3600000)
  end))
  local stream <close> = connect(server)
  await_connections(server, 1)
  equal(server:stop(10), false)
  check.notes "handler closed"
  equal(server:connections(), 0)
  equal(stream:read(), nil)
end)

test("stop without a grace cancels at once, and a second stop does nothing and answers the same", function()
  local server = assert(net.serve(LOCAL, function()
    async.sleep(3600000)
  end))
  local _ <close> = connect(server)
  await_connections(server, 1)
  equal(server:stop(0), false)
  equal(server:stop(0), false)
end)

test("a patient stop hears that another one has cancelled the handlers", function()
  local server = assert(net.serve(LOCAL, function() async.sleep(3600000) end))
  local _ <close> = connect(server)
  await_connections(server, 1)
  local patient = async.run(function() return server:stop(60000) end)
  equal(server:stop(1), false)
  equal(patient:wait(), false)
end)

test("the port is free when the server has stopped", function()
  local server = assert(net.serve(LOCAL, echo))
  server:stop()
  local again <close> = assert(net.serve(server:address(), echo))
  equal(again:address(), server:address())
end)

test("a handler can stop its server", function()
  local server
  server = assert(net.serve(LOCAL, function(stream)
    stream:write("stopping\n")
    server:stop(60000)
    note("handler goes on")
  end))
  local stream <close> = connect(server)
  equal(stream:read_line(), "stopping")
  equal(stream:read(), nil)
  stream:close()
  equal(server:stop(60000), true)
  check.notes "handler goes on"
end)

test("the end of a block stops the server without waiting, and waits for cleanup", function()
  do
    local server <close> = assert(net.serve(LOCAL, function()
      local _ <close> = at_end("handler")
      async.sleep(3600000)
    end))
    local stream = connect(server)
    await_connections(server, 1)
    stream:close()
  end
  check.notes "handler closed"
end)

test("the end of a block in a cancelled task raises nothing", function()
  local begun = async.event()
  local task = async.run(function()
    local server <close> = assert(net.serve(LOCAL, function()
      async.sleep(3600000)
    end))
    local _ <close> = connect(server)
    await_connections(server, 1)
    begun:set()
    async.sleep(3600000)
  end)
  begun:wait()
  task:close()
  local ok, err = task:pwait()
  equal(ok, false)
  equal(err, "closed")
end)

test("the cancellation of the owner ends the server and its handlers", function()
  local server
  local owner = async.run(function()
    server = assert(net.serve(LOCAL, function()
      local _ <close> = at_end("handler")
      async.sleep(3600000)
    end))
  end)
  local _ <close> = connect(server)
  await_connections(server, 1)
  equal(owner:status(), "awaiting") -- its body is over, and it waits for the server
  owner:close()
  owner:pwait()
  check.notes "handler closed"
  equal(net.connect(server:address()), nil)
end)

-- --- Limits --------------------------------------------------------------------------------------

test("no more than max_connections are served at once", function()
  local now, peak = 0, 0
  local server <close> = assert(net.serve(LOCAL, function(stream)
    now = now + 1
    peak = math.max(peak, now)
    stream:write(stream:read_line(), "\n")
    now = now - 1
  end, { max_connections = 3 }))
  local tasks = {}
  for i = 1, 20 do
    tasks[i] = async.run(function()
      local stream <close> = connect(server)
      stream:write(i, "\n")
      equal(stream:read_line(), tostring(i))
    end)
  end
  async.await_all(tasks)
  equal(peak, 3)
end)

-- --- Threads -------------------------------------------------------------------------------------

local ON_THREADS = [[
  local me = tostring({}) -- another in each isolate
  return function(stream)
    for _ in stream:lines() do
      stream:write(me, "\n")
    end
  end
]]

test("all threads of a server answer", function()
  local server = assert(net.serve(LOCAL, ON_THREADS, { threads = 2 }))
  local streams, seen, count = {}, {}, 0
  repeat
    local stream = connect(server)
    streams[#streams + 1] = stream
    stream:write("x\n")
    local who = stream:read_line()
    count = count + (seen[who] and 0 or 1)
    seen[who] = true
  until count == 2
  equal(server:connections(), #streams)
  equal(tostring(server), "server (" .. server:address() .. ", 2 threads)")
  for i = 1, #streams do
    streams[i]:close()
  end
  equal(server:stop(60000), true)
  equal(net.connect(server:address()), nil)
end)

test("stop cancels the handlers of all threads after the grace", function()
  local server = assert(net.serve(LOCAL, ON_THREADS, { threads = 2 }))
  local stream <close> = connect(server)
  stream:write("x\n")
  stream:read_line()
  equal(server:stop(10), false)
  equal(stream:read(), nil)
end)

test("the end of a block and the owner's cancellation end the threads", function()
  local address
  do
    local server <close> = assert(net.serve(LOCAL, ON_THREADS, { threads = 2 }))
    address = server:address()
  end
  equal(net.connect(address), nil)
  local begun = async.event()
  local owner = async.run(function()
    address = assert(net.serve(LOCAL, ON_THREADS, { threads = 2 })):address()
    begun:set()
  end)
  begun:wait()
  owner:close()
  owner:pwait()
  repeat -- the threads are on their way out
    local stream = net.connect(address)
    if stream then
      stream:close()
    end
  until not stream
end)

-- A handler that computes keeps its thread from answering.
local COMPUTES = [[
  return function(stream)
    stream:write "computing\n"
    local began = os.clock()
    while os.clock() - began < 0.1 do end
  end
]]

test("the order to stop reaches a thread that has many questions to answer", function()
  local server = assert(net.serve(LOCAL, COMPUTES, { threads = 1 }))
  local stream <close> = connect(server)
  equal(stream:read_line(), "computing")
  for _ = 1, 40 do async.run(function() server:connections() end) end
  equal(server:stop(60000), true)
end)

test("a stop of threads may be followed by another, and by the end of the block", function()
  do
    local server <close> = assert(net.serve(LOCAL, [[
      return function(stream) stream:write "here\n" require("orrery").async.sleep(3600000) end
    ]], { threads = 1 }))
    local stream <close> = connect(server)
    equal(stream:read_line(), "here")
    local patient = async.run(function() return server:stop(60000) end)
    async.checkpoint()
    equal(server:connections(), 1)
    equal(server:stop(1), false)
    equal(patient:wait(), false)
    equal(server:stop(), false)
  end
end)

test("the handler of threads may be a module", function()
  worker.register("serve_test_module", "return function(stream) stream:write('from a module') end")
  local server <close> = assert(net.serve(LOCAL, "serve_test_module", { threads = 1 }))
  local stream <close> = connect(server)
  equal(stream:read_all(), "from a module")
end)

test("max_connections is shared out among threads", function()
  raises("net.serve: option max_connections is 1, expected at least one for each of the 2 threads", net.serve, LOCAL,
    ON_THREADS, { threads = 2, max_connections = 1 })
  local server <close> = assert(net.serve(LOCAL, ON_THREADS, { threads = 2, max_connections = 2 }))
  local stream <close> = connect(server)
  stream:write("x\n")
  truthy(stream:read_line())
end)

test("threads want a module or a source, of which a message tells", function()
  raises("a function cannot be called on other threads", net.serve, LOCAL, echo, { threads = 2 })
  raises("needs the option threads", net.serve, LOCAL, ON_THREADS)
  raises("'...' expected near <eof>", net.serve, LOCAL, "return function(", { threads = 2 })
  raises("threads cannot share a Unix socket", net.serve, "unix:@orrery-serve-test", ON_THREADS, { threads = 2 })
end)

test("an address that is taken is an error for threads, too", function()
  local server <close> = assert(net.serve(LOCAL, echo))
  local second, err = net.serve(server:address(), ON_THREADS, { threads = 2 })
  equal(second, nil)
  equal(err.code, "EADDRINUSE")
end)

test("a source that gives no handler makes serve fail", function()
  local server, err = net.serve(LOCAL, "return 5", { threads = 2 })
  equal(server, nil)
  equal(err.code, "ENOEXEC")
  truthy(tostring(err):find("the source must return a function that handles a connection; it returned a number", 1, true))
end)
