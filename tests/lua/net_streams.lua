-- The contract of streams, row by row, on every kind of socket.

local check = require "check"
local sockets = require "sockets"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local equal, raises, truthy = check.equal, check.raises, check.truthy
local test, fails = sockets.test, sockets.fails

local function both(fn, other)
  async.scope(function()
    async.run(fn)
    other()
  end)
end

------------------------------------------------------------------------------------------- read()

test("read gives some bytes and nil at the end", function(a, b)
  equal(a:write "hello", a, "what write answers")
  equal(b:read(), "hello")
  a:shutdown()
  equal(select("#", b:read()), 1, "results at the end")
  equal(b:read(), nil)
  equal(b:read(), nil, "again")
end)

test("read gives at most max bytes and leaves the rest", function(a, b)
  a:write "hello"
  equal(b:read(2), "he")
  equal(b:read(1), "l")
  equal(b:read(100), "lo")
end)

test("read waits until there is something", function(a, b)
  local got
  local reader = async.run(function() got = b:read() end)
  equal(got, nil)
  a:write "x"
  reader:wait()
  equal(got, "x")
end)

test("read takes the formats of io", function(a, b)
  a:write "one\ntwo\r\nthree\nfour\nand\nthe rest"
  equal(b:read "l", "one")
  equal(b:read "*l", "two")
  equal(b:read "L", "three\n")
  equal(b:read "*L", "four\n")
  a:shutdown()
  equal(b:read "a", "and\nthe rest")
  equal(b:read "a", "", "as io.read('a') does at the end")
  equal(b:read "l", nil)
  equal(b:read(), nil)
end)

test("L keeps the end of the line as it came", function(a, b)
  a:write "one\r\nlast"
  a:shutdown()
  equal(b:read "L", "one\r\n")
  equal(b:read "L", "last")
  equal(b:read "L", nil)
end)

test("another format raises and says what to do", function(a)
  raises("(expected a number of bytes, \"l\", \"L\" or \"a\", got \"n\"; read a line and use tonumber())", a.read, a, "n")
  raises("got \"x\")", a.read, a, "x")
  raises("got \"\")", a.read, a, "")
  raises("at least 1", a.read, a, 0)
  raises("at least 1", a.read, a, -1)
  raises("number has no integer representation", a.read, a, 1.5)
  raises("number expected, got table", a.read, a, {})
end)

test("bytes of every value pass", function(a, b)
  local all = {}
  for i = 0, 255 do all[#all + 1] = string.char(i) end
  all = table.concat(all)
  a:write(all, "\0", "\0\0")
  equal(b:read_exactly(259), all .. "\0\0\0")
end)

----------------------------------------------------------------------------------- read_exactly()

test("read_exactly waits for all bytes", function(a, b)
  both(function()
    for i = 1, 10 do
      a:write(i % 10)
      async.checkpoint()
    end
  end, function() equal(b:read_exactly(10), "1234567890") end)
end)

test("read_exactly before the end leaves the bytes readable", function(a, b)
  a:write "abc"
  a:shutdown()
  local err = fails("EOF", b:read_exactly(5))
  equal(err.message, "the input ended after 3 of 5 bytes")
  equal(err.operation, "read")
  fails("EOF", b:read_exactly(4))
  equal(b:read_exactly(2), "ab")
  equal(b:read(), "c")
  equal(fails("EOF", b:read_exactly(1)).message, "the input ended after 0 of 1 bytes")
  equal(b:read(), nil)
end)

test("read_exactly of no bytes does not wait", function(a)
  equal(a:read_exactly(0), "")
  raises("at least 0", a.read_exactly, a, -1)
  raises("number expected, got no value", a.read_exactly, a)
end)

test("an announced length takes no memory before the bytes arrive", function(a, b)
  local reader = async.run(function() return b:read_exactly(1 << 50) end)
  a:write "some"
  async.sleep(1)
  equal(reader:status(), "awaiting")
  reader:close()
  reader:pwait()
  equal(b:read(), "some", "a cancelled read consumes nothing")
end)

------------------------------------------------------------------------------------- read_line()

test("read_line gives lines without their end", function(a, b)
  a:write "one\ntwo\r\n\n\r\nthr\ree\nlast"
  a:shutdown()
  for _, line in ipairs { "one", "two", "", "", "thr\ree", "last" } do
    equal(b:read_line(), line)
  end
  equal(select("#", b:read_line()), 1)
  equal(b:read_line(), nil)
end)

test("read_line finds ends whose bytes arrive one by one", function(a, b)
  both(function()
    for byte in ("ab\r\n\r\nc\n"):gmatch "." do
      a:write(byte)
      async.sleep(1)
    end
    a:shutdown()
  end, function()
    equal(b:read_line(), "ab")
    equal(b:read_line(), "")
    equal(b:read_line(), "c")
    equal(b:read_line(), nil)
  end)
end)

test("a line longer than max is an error and stays readable", function(a, b)
  a:write "abcdef\nnext\n"
  local err = fails("EMSGSIZE", b:read_line(5))
  equal(err.message, "no end within 5 bytes")
  fails("EMSGSIZE", b:read_line(5))
  equal(b:read_line(6), "abcdef")
  equal(b:read_line(), "next")
end)

test("max does not count the end of the line, however it arrives", function(a, b)
  for _, pieces in ipairs { { "abc\r\n" }, { "abc", "\r\n" }, { "abc\r", "\n" }, { "a", "b", "c", "\r", "\n" } } do
    both(function()
      for _, piece in ipairs(pieces) do
        a:write(piece)
        async.sleep(1)
      end
    end, function() equal(b:read_line(3), "abc", table.concat(pieces, "|")) end)
  end
  a:write "abcd\r"
  fails("EMSGSIZE", b:read_line(3))
  equal(b:read(), "abcd\r")
end)

test("a last line longer than max is an error", function(a, b)
  a:write "abcd"
  a:shutdown()
  fails("EMSGSIZE", b:read_line(3))
  equal(b:read_line(4), "abcd")
  equal(b:read_line(4), nil)
end)

test("a line without an end stops at 64 KB", function(a, b)
  async.scope(function()
    local writer = async.run(function() a:write(string.rep("x", 70000)) end)
    equal(fails("EMSGSIZE", b:read_line()).message, "no end within 65536 bytes")
    equal(#b:read_exactly(70000), 70000)
    writer:wait()
  end)
end)

----------------------------------------------------------------------------------- read_until()

test("read_until gives what stands before a text", function(a, b)
  a:write "one--two----three"
  a:shutdown()
  equal(b:read_until "--", "one")
  equal(b:read_until "--", "two")
  equal(b:read_until "--", "")
  equal(b:read_until "--", "three")
  equal(b:read_until "--", nil)
end)

test("read_until keeps a carriage return", function(a, b)
  a:write "one\r\ntwo\r\n"
  equal(b:read_until "\n", "one\r")
  equal(b:read_until "\r\n", "two")
end)

test("read_until finds texts with zeros and texts in pieces", function(a, b)
  a:write "a\0b\0\0c"
  equal(b:read_until "\0\0", "a\0b")
  equal(b:read(), "c")
  both(function()
    for _, piece in ipairs { "abcE", "N", "ENDx" } do
      a:write(piece)
      async.sleep(1)
    end
  end, function()
    equal(b:read_until("END", 5), "abcEN")
    equal(b:read(), "x")
  end)
end)

test("max of read_until does not count the text, however it arrives", function(a, b)
  for _, pieces in ipairs { { "abcEND" }, { "abcEN", "D" }, { "abc", "END" }, { "abcE", "ND" } } do
    both(function()
      for _, piece in ipairs(pieces) do
        a:write(piece)
        async.sleep(1)
      end
    end, function() equal(b:read_until("END", 3), "abc", table.concat(pieces, "|")) end)
  end
  a:write "abcdEN"
  fails("EMSGSIZE", b:read_until("END", 3))
  equal(b:read(), "abcdEN")
end)

test("misuse of read_until raises", function(a)
  raises("expected a text that is not empty", a.read_until, a, "")
  raises("string expected, got no value", a.read_until, a)
  raises("at least 1", a.read_until, a, "x", 0)
end)

------------------------------------------------------------------------------------- read_all()

test("read_all gives everything up to the end", function(a, b)
  both(function()
    for _ = 1, 100 do a:write(string.rep("x", 1000)) end
    a:shutdown()
  end, function() equal(b:read_all(), string.rep("x", 100000)) end)
  equal(b:read_all(), "")
end)

test("more than max is an error and stays readable", function(a, b)
  a:write "abcdef"
  a:shutdown()
  equal(fails("EMSGSIZE", b:read_all(5)).message, "more than 5 bytes")
  equal(b:read_all(6), "abcdef")
  equal(b:read_all(6), "")
end)

test("read_all fails while the peer still sends", function(a, b)
  a:write "abcdef"
  fails("EMSGSIZE", b:read_all(5))
  equal(b:read(), "abcdef")
end)

test("ten megabytes pass", function(a, b)
  local part = string.rep("0123456789abcdef", 4096)
  local whole = string.rep(part, 160)
  async.scope(function()
    async.run(function()
      assert(a:write(whole))
      a:shutdown()
    end)
    truthy(assert(b:read_all()) == whole, "the bytes arrive as they are")
  end)
end)

test("read_all stops at 16 MB", function(a, b)
  async.scope(function()
    local writer = async.run(function() a:write(string.rep("x", (16 << 20) + 1)) end)
    equal(fails("EMSGSIZE", b:read_all()).message, "more than 16777216 bytes")
    writer:wait()
  end)
end)

test("read_exactly takes more than a buffer", function(a, b)
  local whole = string.rep("0123456789", 300000)
  async.scope(function()
    async.run(function() a:write(whole, "rest") end)
    truthy(b:read_exactly(#whole) == whole, "the bytes arrive as they are")
    equal(b:read_exactly(4), "rest")
  end)
end)

------------------------------------------------------------------------------------------- loops

test("lines gives every line, and chunks come from a loop over the stream", function(a, b)
  a:write "one\ntwo\r\nthree"
  a:shutdown()
  local lines = {}
  for line in b:lines() do lines[#lines + 1] = line end
  equal(table.concat(lines, "|"), "one|two|three")

  b:write(string.rep("x", 40000))
  b:shutdown()
  local bytes = 0
  for chunk in a do
    truthy(#chunk >= 1)
    bytes = bytes + #chunk
  end
  equal(bytes, 40000)
end)

check.test("lines raises on a reset", function()
  local stream <close> = sockets.broken "one\\ntwo"
  local lines = {}
  local err = raises(nil, function()
    for line in stream:lines() do lines[#lines + 1] = line end
  end)
  equal(err.code, "ECONNRESET")
  equal(table.concat(lines, "|"), "one", "the line that came before")
end)

check.test("a loop over a stream raises on a reset", function()
  local stream <close> = sockets.broken "some"
  local chunks = {}
  local err = raises(nil, function()
    for chunk in stream do chunks[#chunks + 1] = chunk end
  end)
  equal(err.code, "ECONNRESET")
  equal(table.concat(chunks), "some")
end)

test("lines raises if a line is too long", function(a, b)
  a:write "one\nlonger\n"
  local err = raises(nil, function() for _ in b:lines(4) do end end)
  equal(err.code, "EMSGSIZE")
  equal(b:read_line(), "longer")
end)

test("the misuse of a second reader in a loop names the script", function(a, b)
  local reader = async.run(function() return b:read() end)
  raises("net_streams.lua:", function() for _ in b do end end)
  raises("net_streams.lua:", function() for _ in b:lines() do end end)
  raises("net_streams.lua:", function() b:lines(0) end)
  a:write "x"
  equal(reader:wait(), "x")
end)

----------------------------------------------------------------------------------------- write()

test("write takes strings, numbers and lists", function(a, b)
  equal(a:write("a", 1, 2.5, "", "b"), a)
  equal(a:write { "c", 3, "d" }, a)
  equal(a:write {}, a)
  equal(a:write "", a)
  equal(a:write(), a)
  a:shutdown()
  equal(b:read_all(), "a12.5bc3d")
end)

test("write takes many parts", function(a, b)
  local parts = {}
  for i = 1, 1000 do parts[i] = i .. "," end
  a:write(parts)
  a:write(table.unpack(parts, 1, 200))
  a:shutdown()
  equal(b:read_all(), table.concat(parts) .. table.concat(parts, "", 1, 200))
end)

test("misuse of write raises and names the argument", function(a, b)
  raises("net_streams.lua:", a.write and function() a:write(nil) end)
  raises("bad argument #1 to 'write' (expected a string, a number or a list of strings, got nil)", a.write, a, nil)
  raises("bad argument #2 to 'write' (expected a string, a number or a list of strings, got boolean)", a.write, a, "x", true)
  raises("bad argument #2 to 'write'", a.write, a, "x", { "y" })
  raises("bad argument #1 to 'write' (expected strings, got a list with a table at 2)", a.write, a, { "x", {} })
  raises("got a list with a boolean at 70", a.write, a, table.pack(table.unpack(setmetatable({ [70] = true },
    { __index = function() return "x" end }), 1, 80)))
  a:shutdown()
  equal(b:read_all(), "", "nothing of them went out")
end)

test("a list with too many parts raises", function(a, b)
  local endless = setmetatable({}, { __len = function() return 1 << 60 end, __index = function() return "" end })
  raises("1152921504606846976 parts are too many for one call (at most 65536)", a.write, a, endless)
  local many = {}
  for i = 1, 65537 do many[i] = "x" end
  raises("65537 parts are too many", a.write, a, many)
  many[65537] = nil
  async.scope(function()
    async.run(function() a:write(many) end)
    equal(#b:read_exactly(65536), 65536)
  end)
end)

test("write waits while the peer does not read", function(a, b)
  local writer = sockets.stuck_writer(a, 8 << 20)
  local bytes = 0
  while bytes < 8 << 20 do bytes = bytes + #b:read() end
  equal(writer:wait(), a)
end)

test("write to a peer that is gone is an error, and it stays", function(a, b)
  b:close()
  local value, err = true, nil
  while value do value, err = a:write "x" end
  truthy(err.code == "EPIPE" or err.code == "ECONNRESET", err.code)
  local again = fails(err.code, a:write "x")
  equal(again.operation, "write")
end)

test("write after shutdown is an error", function(a, b)
  a:shutdown()
  equal(fails("EPIPE", a:write "x").operation, "write")
  a:shutdown() -- again does nothing
  b:write "still"
  equal(a:read(), "still")
end)

-------------------------------------------------------------------------------------- half-close

test("the end of input does not end the output", function(a, b)
  a:write "question"
  a:shutdown()
  equal(b:read_all(), "question")
  equal(b:read(), nil)
  for i = 1, 3 do
    equal(b:write("answer ", i, "\n"), b)
  end
  b:shutdown()
  equal(a:read_line(), "answer 1")
  equal(a:read_all(), "answer 2\nanswer 3\n")
end)

test("an end of output that came first leaves the input open", function(a, b)
  a:shutdown()
  local answered = async.run(function() return a:read_line() end)
  equal(b:read(), nil)
  b:write "answer\n"
  equal(answered:wait(), "answer")
end)

------------------------------------------------------------------------------------------ errors

check.test("a reset is an error, and it stays", function()
  local stream <close> = sockets.broken()
  local err = fails("ECONNRESET", stream:read())
  equal(err.operation, "read")
  equal(err.message, "Connection reset by peer")
  equal(err.address, stream:peer())
  equal(tostring(err), "read " .. stream:peer() .. ": Connection reset by peer (ECONNRESET)")
  fails("ECONNRESET", stream:read_line())
  fails("ECONNRESET", stream:read_exactly(1))
  fails("ECONNRESET", stream:read_until "x")
  fails("ECONNRESET", stream:read_all())
  equal(stream:is_open(), true)
end)

check.test("bytes before a reset stay readable", function()
  local stream <close> = sockets.broken "abc"
  fails("ECONNRESET", stream:read_exactly(4))
  equal(stream:read_exactly(2), "ab")
  fails("ECONNRESET", stream:read_line())
  equal(stream:read(), "c")
  fails("ECONNRESET", stream:read())
end)

test("a second reader raises at once, whatever it reads", function(a, b)
  a:write "abc\n" -- stays in the buffer while the reader waits for more
  local reader = async.run(function() return b:read_exactly(8) end)
  local text = "another task reads from this stream; one task reads and one writes at a time"
  raises(text, b.read, b)
  raises(text, b.read, b, 1)
  raises(text, b.read, b, "l")
  raises(text, b.read, b, "a")
  raises(text, b.read_exactly, b, 2)
  raises(text, b.read_line, b)
  raises(text, b.read_until, b, "c")
  raises(text, b.read_all, b)
  raises(text, b.read_all, b, 2)
  a:write "defg"
  equal(reader:wait(), "abc\ndefg")
end)

test("a second writer raises at once", function(a, b)
  local writer = sockets.stuck_writer(a)
  local text = "another task writes to this stream; one task reads and one writes at a time"
  raises(text, a.write, a, "x")
  raises(text, a.shutdown, a)
  b:close()
  writer:pwait()
end)

test("one task reads while another writes", function(a, b)
  local reader = async.run(function() return a:read_line() end)
  local writer = sockets.stuck_writer(a, 4 << 20)
  b:write "duplex\n"
  equal(reader:wait(), "duplex")
  local bytes = 0
  while bytes < 4 << 20 do bytes = bytes + #b:read() end
  equal(writer:wait(), a)
end)

------------------------------------------------------------------------------------------ closing

test("close is idempotent, and everything afterwards is an error", function(a, b)
  a:close()
  a:close()
  equal(a:is_open(), false)
  equal(tostring(a), "stream (closed)")
  for _, call in ipairs {
    function() return a:read() end, function() return a:read "l" end, function() return a:read_exactly(1) end,
    function() return a:read_line() end, function() return a:read_until "x" end, function() return a:read_all() end,
    function() return a:write "x" end, function() return a:shutdown() end, function() return a:set { keepalive = 5 } end,
    function() return a:address() end, function() return a:peer() end,
  } do
    local err = fails("ECANCELED", call())
    equal(err.message, "closed")
  end
  equal(raises(nil, function() for _ in a:lines() do end end).code, "ECANCELED")
  equal(b:read(), nil)
end)

test("a task that reads gets ECANCELED when the stream is closed", function(a)
  local reader = async.run(function() return a:read() end)
  a:close()
  local err = fails("ECANCELED", reader:wait())
  equal(err.operation, "read")
end)

test("a task that writes gets ECANCELED when the stream is closed", function(a)
  local writer = sockets.stuck_writer(a)
  a:close()
  fails("ECANCELED", writer:wait())
end)

test("a variable can close its stream", function(a, b)
  do
    local mine <close> = a
    equal(mine:is_open(), true)
  end
  equal(a:is_open(), false)
  equal(b:read(), nil)
end)

test("what was written arrives after close", function(a, b)
  a:write "all of it"
  a:close()
  equal(b:read_all(), "all of it")
end)

---------------------------------------------------------------------------------------- addresses

check.test("addresses are texts that net.connect takes", function()
  for _, address in ipairs { "127.0.0.1:0", "[::1]:0", "unix:@orrery-net-streams" } do
    local listener <close> = assert(net.listen(address))
    local client <close> = assert(net.connect(listener:address()))
    local server <close> = assert(listener:accept())
    equal(client:peer(), listener:address())
    equal(server:address(), listener:address())
    if address:sub(1, 4) ~= "unix" then
      equal(server:peer(), client:address())
      truthy(not listener:address():find ":0$", "the port of the kernel's choice")
    end
  end
end)

check.test("a path is an address and is removed with its listener", function()
  local path = os.tmpname()
  os.remove(path)
  local listener <close> = assert(net.listen("unix:" .. path))
  equal(listener:address(), "unix:" .. path)
  local client <close> = assert(net.connect("unix:" .. path))
  equal(client:peer(), "unix:" .. path)
  local server <close> = assert(listener:accept())
  server:write "hello"
  equal(client:read(), "hello")
  listener:close()
  equal(io.open(path), nil, "the path after the listener")
  fails("ENOENT", net.connect("unix:" .. path))
  os.remove(path)
end)

test("tostring names the kind and the peer", function(a, _, kind)
  if kind == "pair" then
    equal(tostring(a), "stream (unix)")
  else
    local text = kind:match "%a+" .. " " .. a:peer()
    equal(tostring(a), "stream (" .. text .. ")")
  end
end)

----------------------------------------------------------------------------------------- settings

test("set takes settings of sockets", function(a, _, kind)
  if kind:find "tcp" then
    equal(a:set { nodelay = false, keepalive = 30 }, a)
    equal(a:set { nodelay = true, keepalive = false }, a)
    equal(a:set { keepalive = true }, a)
  end
  equal(a:set { send_buffer = 65536, receive_buffer = 65536 }, a)
  equal(a:set {}, a)
end)

test("misuse of set raises", function(a)
  raises("unknown option 'no_delay'; did you mean 'nodelay'?", a.set, a, { no_delay = true })
  raises("option nodelay is a number, expected a boolean", a.set, a, { nodelay = 1 })
  raises("option keepalive is 0, expected a whole number from 1 to 32767", a.set, a, { keepalive = 0 })
  raises("option send_buffer is x, expected a whole number from 1 to 1073741824", a.set, a, { send_buffer = "x" })
  raises("table", a.set, a)
end)

check.test("a pair has no delay to set", function()
  local a, b = sockets.kinds.pair()
  local _ <close> = a
  local _ <close> = b
  fails("EOPNOTSUPP", a:set { nodelay = true })
  equal(b:is_open(), true)
end)

------------------------------------------------------------------------------------ what it is not

test("a method called without its stream raises", function(a)
  raises("bad argument #1 to 'read' (orrery.stream expected, got no value)", function() a.read() end)
  raises("orrery.stream expected, got table", function() a.read {} end)
  raises("orrery.stream expected", function() a.close(io.stdout) end)
end)
