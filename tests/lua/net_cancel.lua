-- Cancellation of everything in `net` that waits: each operation, cancelled before it begins, while
-- it waits, when it is about to complete, and afterwards; by the task's close, by a time limit, and
-- with the task that owns it. No descriptor may be lost, and what is left must work as if the
-- operation had never been.

local check = require "check"
local sockets = require "sockets"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy
local fails = sockets.fails

-- Something that is closed at the end of a case.
local function owner()
  local list = {}
  return setmetatable({}, {
    __call = function(_, ...)
      for _, object in ipairs { ... } do list[#list + 1] = object end
      return ...
    end,
    __close = function()
      for _, object in ipairs(list) do object:close() end
    end,
  })
end

-- Each operation returns three functions: the wait; what makes it complete; and a check that all is
-- whole afterwards. The check gets whether the operation has completed.
local operations = {}

local function reading(read, sent)
  return function(own)
    local a, b = own(sockets.tcp())
    return function() return read(b) end, function() a:write(sent) end, function(completed, told)
      if told and not completed then
        equal(b:read_exactly(#sent), sent, "a cancelled read consumes nothing")
      end
      a:write "more"
      equal(b:read_exactly(4), "more")
      b:write "back"
      equal(a:read_exactly(4), "back")
    end
  end
end

operations.read = reading(function(b) return b:read() end, "hello")
operations.read_exactly = reading(function(b) return b:read_exactly(5) end, "hello")
operations.read_line = reading(function(b) return b:read_line() end, "hello\n")
operations.read_until = reading(function(b) return b:read_until "END" end, "helloEND")
operations["a loop"] = reading(function(b) for chunk in b do return chunk end end, "hello")
operations.lines = reading(function(b) for line in b:lines() do return line end end, "hello\n")

operations.read_all = function(own)
  local a, b = own(sockets.tcp())
  a:write "all"
  return function() return b:read_all() end, function() a:shutdown() end, function(completed)
    a:shutdown()
    equal(b:read_all(), completed and "" or "all")
    b:write "back"
    equal(a:read(), "back")
  end
end

-- A write of which something had gone out breaks the stream: the other end sees that, and the end.
operations.write = function(own)
  local a, b = own(sockets.tcp())
  local size, got = 4 << 20, 0
  local drain = function(most)
    while got < most do got = got + #assert(b:read()) end
  end
  local text = string.rep("x", size)
  return function() return assert(a:write(text)) end, function() drain(size) end, function(completed)
    if completed then drain(size) end
    local value, err = a:write "more"
    if value then
      equal(b:read_exactly(4), "more", "nothing of a cancelled write had gone out")
      return
    end
    equal(completed, false)
    equal(err.code, "ECONNABORTED")
    truthy(err.written > 0 and err.written < size, "written: " .. tostring(err.written))
    a:close()
    for chunk in b do got = got + #chunk end
    equal(got, err.written, "bytes that arrived")
  end
end

operations.accept = function(own)
  local listener = own(assert(net.listen "127.0.0.1:0"))
  local clients = 0
  return function() return own(assert(listener:accept())) end, function()
    own(assert(net.connect(listener:address())))
    clients = clients + 1
  end, function(completed)
    if completed then clients = clients - 1 end
    local client = own(assert(net.connect(listener:address())))
    for _ = 1, clients do own(assert(listener:accept())) end
    equal(own(assert(listener:accept())):peer(), client:address(), "the next connection")
  end
end

operations.receive = function(own)
  local a, b = own(assert(net.udp "127.0.0.1:0"), assert(net.udp "127.0.0.1:0"))
  return function() return b:receive() end, function() a:send("hello", b:address()) end, function(completed, told)
    if told and not completed then equal(b:receive(), "hello") end
    a:send("more", b:address())
    equal(b:receive(), "more")
  end
end

-- A listener on a path whose backlog is full does not let anybody in.
operations.connect = function(own)
  local listener = own(assert(net.listen("unix:@orrery-cancel-" .. tostring({}):match "0x%x+", { backlog = 1 })))
  local address = listener:address()
  local waiting = 0
  while true do
    local stream = async.move_on_after(0, net.connect, address)
    if not stream then break end
    own(stream)
    waiting = waiting + 1
  end
  return function() return own(assert(net.connect(address))) end, function() own(assert(listener:accept())) waiting = waiting - 1 end,
    function(completed)
      for _ = 1, waiting + (completed and 1 or 0) do own(assert(listener:accept())) end
      local client = own(assert(net.connect(address)))
      client:write "hello"
      equal(own(assert(listener:accept())):read(), "hello")
    end
end

operations.copy = function(own)
  local a, b = own(sockets.tcp())
  local c, d = own(sockets.tcp())
  a:write "copied"
  return function() return net.copy(b, c) end, function() a:shutdown() end, function(completed, told)
    if not completed and not told then a:write "more" end
    a:shutdown()
    if not completed then net.copy(b, c) end
    c:shutdown()
    equal(d:read_all(), (completed or told) and "copied" or "copiedmore")
  end
end

operations.lookup = function(own)
  local listener = own(assert(net.listen "127.0.0.1:0"))
  local name = "localhost:" .. listener:address():match "%d+$"
  return function() return net.lookup(name) end, function() end, function()
    truthy(#assert(net.lookup(name)) >= 1)
  end
end

-- The runtime opens descriptors of its own when they are first needed.
before_each(function()
  local a, b = sockets.tcp()
  async.sleep(1)
  a:close()
  b:close()
  net.lookup "localhost:80"
end)

local names = {}
for name in pairs(operations) do names[#names + 1] = name end
table.sort(names)

-- How the operation is ended.
local endings = {
  ["its close"] = function(task) task:close() end,
  ["its owner's end"] = function(_, parent) parent:close() end,
}

-- Runs one operation in a task below another, and ends it at a step. Returns whether it completed.
local function run(step, ending, wait, complete)
  local completed, task = false, nil
  local parent = async.run("owner", function()
    async.scope(function()
      task = async.run("operation", function()
        if step == "before" then
          async.current():close()
        end
        wait()
        completed = true
      end)
    end)
  end)
  if step == "at completion" then complete() end
  if step == "after" then
    complete()
    while not completed and task:status() ~= "completed" do async.sleep(1) end
  end
  ending(task, parent)
  parent:pwait()
  if step == "after" then equal(completed, true, "the operation is complete") end
  return completed, step == "at completion" or step == "after"
end

for _, name in ipairs(names) do
  for _, step in ipairs { "before", "during", "at completion", "after" } do
    for how, ending in pairs(endings) do
      test(name .. " " .. step .. ", ended by " .. how, function()
        local before = sockets.descriptors()
        do
          local own <close> = owner()
          local wait, complete, whole = operations[name](own)
          local open = sockets.descriptors()
          local completed, told = run(step, ending, wait, complete)
          if not completed and not told then
            sockets.closed_since(open, "after the end of the task")
          end
          whole(completed, told)
        end
        async.checkpoint()
        sockets.closed_since(before)
      end)
    end
  end

  if name ~= "lookup" then
    test(name .. " ended by a time limit", function()
      local before = sockets.descriptors()
      do
        local own <close> = owner()
        local wait, _, whole = operations[name](own)
        equal(raises(nil, async.with_timeout, 1, wait), "timeout", "a time limit is no error of a socket")
        whole(false, false)
      end
      sockets.closed_since(before)
    end)
  end
end

-------------------------------------------------------------------------------------- single cases

test("a cancelled write of which nothing had gone out leaves the stream whole", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local task = async.run(function()
    async.current():close()
    return a:write "never"
  end)
  equal(select(2, task:pwait()), "closed")
  a:write "sound"
  equal(b:read(), "sound")
end)

test("a broken write says how much had gone out, and every later one, too", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local writer = sockets.stuck_writer(a)
  writer:close()
  writer:pwait()
  local err = fails("ECONNABORTED", a:write "x")
  equal(err.message, "an earlier write was cancelled after a part of it had gone out")
  truthy(err.written > 0)
  equal(fails("ECONNABORTED", a:write "x").written, err.written)
  equal(fails("ECONNABORTED", a:shutdown()).written, err.written)
  b:write "still"
  equal(a:read(), "still", "the other direction")
end)

test("bytes that arrive for a cancelled read are there for the next, in order", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local text = {}
  for i = 1, 200 do
    local reader = async.run(function() return b:read_exactly(1000000) end)
    a:write(i, ",")
    text[#text + 1] = i .. ","
    if i % 2 == 0 then async.sleep(0) end
    reader:close()
    reader:pwait()
  end
  a:shutdown()
  equal(b:read_all(), table.concat(text))
end)

test("a reader that was cancelled makes room for another at once", function()
  local a, b = sockets.tcp()
  local _ <close> = a
  local _ <close> = b
  local first = async.run(function() return b:read() end)
  first:close()
  local second = async.run(function() return b:read() end)
  a:write "x"
  equal(second:wait(), "x")
end)
