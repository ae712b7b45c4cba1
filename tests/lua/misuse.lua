-- Names that the API does not have, and arguments that would be ignored in silence.

local check = require "check"
local orrery = require "orrery"
local async, json, net, worker = orrery.async, orrery.json, orrery.net, orrery.worker
local test, equal = check.test, check.equal

-- Returns the error of a function that runs as a task, without its position.
local function error_of(fn)
  local ok, err = async.pawait(async.run({ name = "misuse", detached = true }, fn))
  equal(ok, false)
  return (tostring(err):gsub("^[^\n]-:%d+: ", ""))
end

-- Returns what an error says after the semicolon.
local function hint_of(fn)
  return error_of(fn):match("; (.*)$")
end

local stream, other_end = net.pair()
other_end:close()

local objects = {
  ["a task"] = async.run(function() end),
  ["a queue"] = async.queue(),
  ["an event"] = async.event(),
  ["a future"] = async.future(),
  ["a semaphore"] = async.semaphore(1),
  ["a mutex"] = async.mutex(),
  ["a condition"] = async.condition(),
  ["a timer"] = orrery.loop.new_timer(),
  ["a channel"] = worker.channel(1),
  ["a worker"] = worker.new("return 1"),
  ["a worker pool"] = worker.pool(),
  ["a private loop"] = orrery.eventloop(),
  ["a stream"] = stream,
  ["a listener"] = net.listen("127.0.0.1:0"),
  ["a datagram"] = net.udp("127.0.0.1:0"),
}

------------------------------------------------------------------------------------------- modules

test("a name from another library says what to write here", function()
  equal(hint_of(function() async.spawn(print) end), "async has no 'spawn': write async.run(fn)")
  equal(hint_of(function() async.gather() end), "async has no 'gather': write async.await_all({ t1, t2 })")
  equal(hint_of(function() orrery.setTimeout() end), "orrery has no 'setTimeout': write loop.set_timeout(ms, fn)")
  equal(hint_of(function() json.parse "1" end), "json has no 'parse': write json.decode(text)")
  equal(hint_of(function() orrery.events:fire() end), "events has no 'fire': write events:emit(name, data)")
  equal(hint_of(function() worker.spawn() end), "worker has no 'spawn': write worker.new(script):call(...)")
  equal(hint_of(function() net.createServer() end), "net has no 'createServer': write net.serve(address, handler)")
  equal(hint_of(function() orrery.socket.tcp() end), "orrery has no 'socket': write orrery.net")
end)

test("a misspelt field names the nearest one", function()
  equal(hint_of(function() async.slep(1) end), "did you mean 'sleep'?")
  equal(hint_of(function() orrery.asynch.run(print) end), "did you mean 'async'?")
  equal(hint_of(function() orrery.loop.set_timout() end), "did you mean 'set_timeout'?")
end)

test("a field of another module names that module", function()
  equal(hint_of(function() orrery.sleep(1) end), "did you mean async.sleep?")
  equal(hint_of(function() async.set_timeout(1) end), "did you mean loop.set_timeout?")
  equal(hint_of(function() async.emit "x" end), "did you mean events:emit?")
end)

test("a global that people expect says what to write", function()
  equal(hint_of(function() setTimeout(print, 1) end), -- luacheck: ignore
    "there is no global 'setTimeout': write loop.set_timeout(ms, fn)")
  equal(hint_of(function() await(1) end), "did you mean async.await?") -- luacheck: ignore
end)

test("a name that was kept in a local variable gets the hint, too", function()
  equal(hint_of(function()
    local spawn = async.spawn
    spawn(print)
  end), "async has no 'spawn': write async.run(fn)")
end)

test("a call over several lines gets the hint", function()
  equal(hint_of(function()
    async
      .spawn(function()
        return 1
      end)
  end), "async has no 'spawn': write async.run(fn)")
end)

test("a missing field is nil, and may be tested", function()
  equal(async.spawn, nil)
  equal(rawget(async, "spawn"), nil)
  equal(orrery.asynch, nil)
  equal(objects["a queue"].push, nil)
  equal(objects["a task"].cancel, nil)
end)

test("a field of a table that is not ours gets no hint", function()
  local game = {}
  equal(error_of(function()
    local _ = async.spawn
    game.spawn()
  end), "attempt to call a nil value (field 'spawn')")
end)

test("an error that is caught on the spot is Lua's own", function()
  local _, err = pcall(function() async.spawn() end)
  equal(err:match("attempt.*"), "attempt to call a nil value (field 'spawn')")
end)

test("a field that was set meanwhile gets no hint", function()
  equal(error_of(function()
    local missing = async.added_later
    async.added_later = print
    missing()
  end):match("; .*"), nil)
  async.added_later = nil
end)

------------------------------------------------------------------------------------------- classes

test("every class says what it has", function()
  for name, object in pairs(objects) do
    local hint = hint_of(function() object:no_such_thing_anywhere() end)
    equal(hint:find(name .. " has no 'no_such_thing_anywhere', only ", 1, true), 1)
  end
end)

test("methods of other libraries say what to write here", function()
  local wanted = {
    ["a task"] = { "cancel", "task:close()" },
    ["a queue"] = { "push", "queue:put(item)" },
    ["an event"] = { "fire", "event:set()" },
    ["a future"] = { "resolve", "future:complete(nil, value)" },
    ["a semaphore"] = { "post", "semaphore:release()" },
    ["a mutex"] = { "acquire", "mutex:lock()" },
    ["a condition"] = { "broadcast", "condition:notify_all()" },
    ["a timer"] = { "cancel", "timer:close(), or timer:stop() to start it again later" },
    ["a channel"] = { "push", "channel:send(value)" },
    ["a worker"] = { "terminate", "worker:close()" },
    ["a worker pool"] = { "shutdown", "pool:close()" },
    ["a private loop"] = { "emit", "queueEvent(name, ...)" },
    ["a stream"] = { "send", "stream:write(...)" },
    ["a listener"] = { "getsockname", "listener:address()" },
    ["a datagram"] = { "recvfrom", "datagram:receive()" },
  }
  for name, object in pairs(objects) do
    local method, write = wanted[name][1], wanted[name][2]
    local call = assert(load(("local object = ... object:%s()"):format(method)))
    equal(hint_of(function() call(object) end), ("%s has no '%s': write %s"):format(name, method, write))
  end
end)

test("a field of a task that is called gets the hint", function()
  local task = objects["a task"]
  equal(hint_of(function() task.cancel() end), "a task has no 'cancel': write task:close()")
end)

test("a worker's error has the hint", function()
  local w = worker.new(function() require("orrery").async.spawn() end)
  local err = error_of(function() w:call() end)
  equal(err:match("; ([^\n]*)"), "async has no 'spawn': write async.run(fn)")
end)

test("await_all says what to write for several tasks", function()
  local t = objects["a task"]
  equal(error_of(function() async.await_all(t, t) end),
    "async.await_all: expected a list of tasks, got several tasks; write async.await_all({ t1, t2 })")
  equal(error_of(function() async.await_any(t) end),
    "async.await_any: expected a list of tasks, got a task; write async.await_any({ task })")
  equal(error_of(function() async.await_all({ t }, { t }) end),
    "async.await_all: expected one list of tasks, got a second argument, a table; "
      .. "put all tasks into one list: async.await_all({ t1, t2 })")
  equal(error_of(function() async.iter(print) end),
    "async.iter: expected a list of tasks, got a function; start it as a task with async.run(fn)")
end)

------------------------------------------------------------------------------------------- silence

test("a queue does not take nil", function()
  local queue = async.queue()
  local text = "cannot put nil, which queue:get() returns when the queue is closed and empty; "
    .. "put another value, or end the queue with queue:close()"
  equal(error_of(function() queue:put(nil) end), "queue:put: " .. text)
  equal(error_of(function() queue:put() end), "queue:put: " .. text)
  equal(error_of(function() queue:put_nowait(nil) end), "queue:put_nowait: " .. text)
  equal(#queue, 0)
end)

test("a queue takes false", function()
  local queue = async.queue()
  queue:put(false)
  equal(queue:get(), false)
end)

test("emit takes one value", function()
  equal(error_of(function() orrery.events:emit("x", 1, 2) end),
    "events:emit: expected a name and one value, got more; put the values into a table: events:emit(name, { a, b })")
end)

test("an unknown option is named, with what may have been meant", function()
  equal(error_of(function() async.run({ nmae = "x" }, print) end), "async.run: unknown option 'nmae'; did you mean 'name'?")
  equal(error_of(function() async.run({ x = 1 }, print) end),
    "async.run: unknown option 'x'; expected name, detached, fair or deadline")
  equal(error_of(function() async.run({ print }) end),
    "async.run: unknown option '1'; expected name, detached, fair or deadline")
  equal(error_of(function() json.encode(1, { ident = 1 }) end), "json.encode: unknown option 'ident'; did you mean 'indent'?")
  equal(error_of(function() json.decode("1", { float = true }) end),
    "json.decode: unknown option 'float'; did you mean 'floats'?")
  equal(error_of(function() worker.new("return 1", { timout = 1 }) end),
    "worker.new: unknown option 'timout'; did you mean 'timeout'?")
  equal(error_of(function() worker.pool { workers = 2 } end),
    "worker.pool: unknown option 'workers'; expected size, queue, memory or timeout")
  equal(error_of(function() worker.pool { 2 } end),
    "worker.pool: unknown option '1'; expected size, queue, memory or timeout")
  equal(error_of(function() worker.new("return 1"):run({ callback = print, timout = 1 }) end),
    "worker:run: unknown option 'timout'; did you mean 'timeout'?")
  equal(error_of(function() orrery.eventloop { x = 1 } end),
    "eventloop.new: expected no arguments, got a table; a private loop has no options")
end)

test("an option of another type is refused", function()
  equal(error_of(function() async.run({ name = 5 }, print) end), "async.run: option name: expected a string, got number")
  equal(error_of(function() async.run({ detached = "no" }, print) end),
    "async.run: option detached: expected true or false, got string")
  equal(error_of(function() json.decode("1", { floats = 1 }) end),
    "json.decode: option floats: expected true or false, got number")
  equal(error_of(function() json.decode("1", true) end), "json.decode: expected a table of options, got boolean")
end)

test("a misused option blames the caller's line", function()
  local line = debug.getinfo(1, "l").currentline
  local _, err = pcall(function() worker.new("return 1"):run({ callback = print, x = 1 }) end)
  equal(err:match(":(%d+): worker:run"), tostring(line + 1))
  _, err = pcall(function() orrery.eventloop(1) end)
  equal(err:match(":(%d+): eventloop"), tostring(line + 3))
end)

----------------------------------------------------------------------------------------- iterating

test("a loop over a queue ends when the queue is closed", function()
  local queue, got = async.queue(1), {}
  async.run(function()
    for i = 1, 3 do
      queue:put(i)
      async.sleep(1)
    end
    queue:close()
  end)
  for item in queue do
    got[#got + 1] = item
  end
  equal(table.concat(got, " "), "1 2 3")
  for _ in queue:iter() do
    error "the queue is closed and empty"
  end
end)

test("two loops share a queue", function()
  local queue, count = async.queue(), 0
  local function consume()
    for _ in queue do
      count = count + 1
      async.checkpoint()
    end
  end
  local tasks = { async.run(consume), async.run(consume) }
  for i = 1, 10 do
    queue:put(i)
  end
  queue:close()
  async.await_all(tasks)
  equal(count, 10)
end)

test("a closed task leaves its loop over a queue", function()
  local queue, cleaned = async.queue(), false
  local task = async.run(function()
    local _ <close> = setmetatable({}, { __close = function() cleaned = true end })
    for _ in queue do end -- luacheck: ignore
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  equal(cleaned, true)
  queue:put("kept")
  equal(queue:get(), "kept")
end)

test("a loop over a channel ends when the channel is closed", function()
  local channel, got = worker.channel(4), {}
  channel:send("a", 1)
  channel:send("b", 2)
  channel:close()
  for letter, number in channel do
    got[#got + 1] = letter .. number
  end
  equal(table.concat(got, " "), "a1 b2")
end)

test("a semaphore that begins with no permits counts releases", function()
  local semaphore, order = async.semaphore(0), {}
  local task = async.run(function()
    semaphore:acquire()
    order[#order + 1] = "acquired"
  end)
  order[#order + 1] = "released"
  semaphore:release()
  task:wait()
  semaphore:release()
  semaphore:release()
  equal(semaphore:try_acquire() and semaphore:try_acquire() and not semaphore:try_acquire(), true)
  equal(table.concat(order, " "), "released acquired")
end)

test("an address that lacks its port, or its host, says how to write it", function()
  equal(error_of(function() net.connect("127.0.0.1", 80) end),
    'net.connect: the port is a part of the address: write "host:80"')
  equal(error_of(function() net:connect("127.0.0.1:80") end),
    'net.connect: expected a table of options after the address, got a string; '
      .. 'write net.connect("host:port"), with a dot')
  equal(error_of(function() net.listen(8080) end),
    'net.listen: expected an address such as "127.0.0.1:80", got number')
  equal(error_of(function() net.listen(":8080") end),
    'net.listen: bad address ":8080" (there is no host in it; "0.0.0.0:port" or "[::]:port" is every address of '
      .. 'this machine, "127.0.0.1:port" its own programs only)')
  equal(error_of(function() net.connect("tcp://127.0.0.1:80") end),
    'net.connect: bad address "tcp://127.0.0.1:80" (expected "host:port", without "://")')
end)

test("an option for a timeout says what to write", function()
  equal(error_of(function() net.connect("127.0.0.1:1", { timeout = 5 }) end),
    "net.connect: unknown option 'timeout'; write async.with_timeout(ms, fn) around the call")
end)

test("net.copy names the argument that is no stream", function()
  equal(error_of(function() net.copy(stream) end), "net.copy: expected two streams, got no value as argument 2")
end)
