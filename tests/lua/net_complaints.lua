-- What users of other systems complain of, as tests: each is named after the complaint that must be
-- impossible here.

local check = require "check"
local sockets = require "sockets"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy
local fails = sockets.fails

-- A test with two connected streams.
local function complaint(name, fn)
  test("not here: " .. name, function()
    local a, b = sockets.tcp()
    local _ <close> = a
    local _ <close> = b
    fn(a, b)
  end)
end

complaint("a timed-out read loses bytes", function(a, b)
  a:write "half a li"
  raises("timeout", async.with_timeout, 5, b.read_line, b)
  raises("timeout", async.with_timeout, 5, b.read_exactly, b, 100)
  a:write "ne\n"
  equal(b:read_line(), "half a line")
end)

complaint("timeouts stick to the socket, or look like the kernel's ETIMEDOUT", function(a, b)
  equal(raises(nil, async.with_timeout, 1, b.read, b), "timeout")
  equal(async.move_on_after(1, b.read, b), nil)
  a:write "x"
  equal(b:read(), "x", "without a limit")
  local reader = async.run(function() return b:read() end)
  async.sleep(5)
  equal(reader:status(), "awaiting", "no limit of an earlier call")
  a:write "y"
  equal(reader:wait(), "y")
end)

complaint("ECONNREFUSED is thrown", function()
  local listener = assert(net.listen "127.0.0.1:0")
  local address = listener:address()
  listener:close()
  equal(fails("ECONNREFUSED", net.connect(address)).address, address)
end)

complaint("socket busy, no duplex", function(a, b)
  async.scope(function()
    local size = 1 << 20
    for _, stream in ipairs { a, b } do
      async.run(function() assert(stream:write(string.rep("x", size))) end)
      async.run(function() equal(#assert(stream:read_exactly(size)), size) end)
    end
  end)
  local reader = async.run(function() return a:read() end)
  raises("another task reads from this stream", a.read, a)
  b:write "x"
  equal(reader:wait(), "x")
end)

complaint("stale waiters after timeouts", function(a, b)
  for _ = 1, 100 do
    async.move_on_after(0, b.read, b)
  end
  a:write "x"
  equal(b:read(), "x")
  a:write "y"
  equal(b:read(), "y", "no earlier reader has taken it")
end)

complaint("receive cannot be interrupted at shutdown", function(a, b)
  local tasks = {
    async.run(function() return a:read() end), async.run(function() return b:read_all() end), sockets.stuck_writer(a),
  }
  for _, task in ipairs(tasks) do
    task:close()
    equal(select(2, task:pwait()), "closed")
  end
end)

complaint("connect cannot be aborted; the abort is lost during DNS", function()
  local before = sockets.descriptors()
  local task = async.run(function() return net.connect "localhost:1" end)
  task:close()
  equal(select(2, task:pwait()), "closed")
  sockets.closed_since(before)
end)

complaint("DNS blocks", function()
  local waits = false
  for _ = 1, 10000 do -- each may be done at once: a thread of its own looks it up
    local lookup = async.run(function() truthy(#assert(net.lookup "localhost:80") >= 1) end)
    waits = lookup:status() == "awaiting"
    lookup:wait()
    if waits then break end
  end
  truthy(waits, "a task goes on while another looks up a name")
end)

complaint("/etc/hosts is ignored", function()
  for _, address in ipairs(assert(net.lookup "localhost:80")) do
    truthy(address == "127.0.0.1:80" or address == "[::1]:80", address)
  end
end)

complaint("no line reads, no exact reads", function(a, b)
  a:write "line\nexactly5until;rest"
  a:shutdown()
  equal(b:read_line(), "line")
  equal(b:read_exactly(8), "exactly5")
  equal(b:read_until ";", "until")
  equal(b:read_all(), "rest")
end)

complaint("a cancelled write does not say how much went out", function(a, b)
  raises("timeout", async.with_timeout, 5, a.write, a, string.rep("x", 16 << 20))
  local err = fails("ECONNABORTED", a:write "more")
  a:close()
  equal(#b:read_all(), err.written)
end)

complaint("the end of input closes the output", function(a, b)
  a:write "q"
  a:shutdown()
  equal(b:read_all(), "q")
  for _ = 1, 10 do
    equal(b:write "answer", b)
    async.sleep(0)
  end
  b:shutdown()
  equal(a:read_all(), string.rep("answer", 10))
end)

complaint("back-pressure is missing or ignored", function(a)
  local before = collectgarbage "count"
  local writes = 0
  local writer = async.run(function()
    local chunk = string.rep("x", 65536)
    while true do
      assert(a:write(chunk))
      writes = writes + 1
    end
  end)
  local last
  repeat -- until the kernel takes no more
    last = writes
    async.sleep(10)
  until writes == last
  equal(writer:status(), "awaiting")
  collectgarbage()
  truthy(collectgarbage "count" - before < 4096, "nothing piles up in the writer")
  writer:close()
  writer:pwait()
end)

complaint("an idle connection is read though nobody asks", function(a, b)
  -- More than a kernel's buffers hold can only be taken if somebody reads.
  local writer = sockets.stuck_writer(a, 32 << 20)
  for _ = 1, 20 do async.sleep(1) end
  equal(writer:status(), "awaiting")
  b:close()
  writer:pwait()
end)

complaint("only the first address is tried", function()
  -- localhost has the address ::1 on many machines, where nobody listens.
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local client <close> = assert(net.connect("localhost:" .. listener:address():match "%d+$"))
  equal(client:peer(), listener:address())
end)

complaint("a broken connection looks like the end of the input", function()
  local stream <close> = sockets.broken "half"
  local err = raises(nil, function() for _ in stream:lines() do end end)
  equal(err.code, "ECONNRESET")
  fails("ECONNRESET", stream:read_all())
end)

complaint("a write to a closed pipe kills the process", function()
  local reader, writer = net.pipe()
  local _ <close> = writer
  reader:close()
  fails("EPIPE", writer:write "x")
end)
