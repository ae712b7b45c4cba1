-- Makes as much of one thing as it can, or as this file says, and keeps it.  tests/check-memory
-- runs each case in a process of its own with a memory limit, and checks how much memory that
-- process used.
--
-- Usage: orrery --memory 64M hoard.lua CASE [SEED]

local orrery = require "orrery"
local async, loop, events, worker = orrery.async, orrery.loop, orrery.events, orrery.worker

local case, seed = ...
local big = string.rep("x", 7 << 20)
local kept = {} -- for ever
local refusals = 0

-- Calls a function, up to a number of times, until it has been refused a few times.
local function hoard(most, make)
  local times = 0
  for i = 1, most do
    if not pcall(function() kept[#kept + 1] = make(i) end) then
      times = times + 1
      refusals = refusals + 1
      if times == 3 then
        break
      end
    end
  end
end

local function sleeper()
  async.sleep(1e9)
end

local function close_tasks()
  for i = 1, #kept do
    pcall(function() kept[i]:close() end)
  end
  kept = {}
end

local cases = {}

-- --- Names, texts, errors ------------------------------------------------------------------------

cases["task names"] = function()
  hoard(500, function() return async.run(big, sleeper) end)
  close_tasks()
end

cases["event names"] = function()
  hoard(60, function(i)
    local name = big .. i
    events:on(name, function() async.sleep(1e6) end)
    events:emit(name)
    events:clear(name)
    return true
  end)
end

cases["errors of supervised children"] = function()
  hoard(3, function()
    async.supervise(function()
      for _ = 1, 300 do
        async.run(function() error(big, 0) end)
      end
    end)
  end)
end

cases["errors that nobody sees"] = function()
  for _ = 1, 400 do
    async.run({ detached = true }, function() error(big, 0) end)
  end
end

cases["names of functions in tracebacks"] = function()
  local t = {}
  t[big] = function(n)
    if n > 0 then
      t[big](n - 1)
    end
    error("x", 0)
  end
  hoard(30, function()
    local task = async.run({ detached = true }, function() t[big](10) end)
    async.pawait(task)
    return task:traceback()
  end)
end

cases["lists of errors"] = function()
  hoard(80, function(n)
    local ok
    local task = async.run(function()
      ok = pcall(async.supervise, function()
        for i = 1, 200 do
          async.run(function() error("error " .. n * 1000 + i, 0) end)
        end
      end)
    end)
    async.pawait(task)
    return { task, task:errors(), ok }
  end)
end

-- A supervisor keeps the failures of its children: here each failure comes from a long chain of
-- tasks.
cases["chains of failures"] = function()
  local function chain(depth)
    if depth == 0 then
      error("deep", 0)
    end
    async.await(async.run(chain, depth - 1))
  end
  hoard(3, function()
    async.supervise(function()
      for _ = 1, 50 do
        async.run(chain, 200)
      end
    end)
  end)
end

-- --- Workers -------------------------------------------------------------------------------------

cases["names of workers"] = function()
  hoard(400, function() return worker.new("return 1", { name = big }) end)
end

cases["sources of workers"] = function()
  hoard(5000, function(i) return worker.new("return " .. i .. string.rep(" ", 120 << 10)) end)
end

cases["modules of workers"] = function()
  hoard(5000, function(i)
    return worker.new("return 1", { modules = { m = "return " .. i .. string.rep(" ", 100 << 10), n = "return 2" } })
  end)
end

cases["small workers"] = function()
  hoard(300000, function() return worker.new "return 1" end)
end

cases["errors of jobs"] = function()
  local failing = worker.new "error(string.rep('x', 7 << 20), 0)"
  local told = 0
  hoard(60, function()
    failing:run { callback = function(...) told = told + 1; kept[#kept + 1] = { ... } end }
    if told % 8 == 0 then
      async.sleep(1)
    end
  end)
  while failing:pending() > 0 do
    async.sleep(1)
  end
end

cases["jobs that hoard"] = function()
  local hoarder = worker.new [[
    local t = {}
    while true do
      pcall(function() t[#t + 1] = ("x"):rep(1000) .. #t end)
    end]]
  local pool = worker.pool { size = 4 }
  hoard(12, function() return (pool:new "local t = {} for i = 1, 1e7 do t[i] = { i } end"):run { callback = print } end)
  hoard(12, function() return hoarder:run { callback = function() end, timeout = 300 } end)
  while hoarder:pending() > 0 do
    async.sleep(1)
  end
end

cases["arguments of jobs"] = function()
  local slow = worker.new "require 'orrery'.async.sleep(1e9)"
  hoard(2000, function() slow:run(big, { callback = function() end }) end)
  slow:close()
end

cases["results of jobs"] = function()
  local copier = worker.new "return ('x'):rep(3 << 20)"
  hoard(200, function() copier:run { callback = function(...) kept[#kept + 1] = { ... } end } end)
  while copier:pending() > 0 do
    async.sleep(1)
  end
end

cases["many small jobs"] = function()
  local pool = worker.pool { size = 1, queue = 1000000 }
  local slow = pool:new "require 'orrery'.async.sleep(1e9)"
  hoard(200000, function() slow:run { callback = function() end } end)
  slow:close()
end

-- --- Channels ------------------------------------------------------------------------------------

cases.channels = function()
  hoard(2000000, function() return worker.channel(1) end)
end

cases["channels that are dropped"] = function()
  for _ = 1, 1000000 do
    worker.channel(1)
  end
end

cases["what is in channels"] = function()
  hoard(2000, function()
    local channel = worker.channel(10)
    channel:try_send(string.rep("y", 300 << 10))
    return channel
  end)
end

cases["messages that are dropped"] = function()
  for _ = 1, 5000 do
    pcall(function() worker.channel(10):try_send(string.rep("y", 100 << 10)) end)
  end
end

cases["channels in channels"] = function()
  local channel = worker.channel(1)
  hoard(1000000, function()
    local outer = worker.channel(1)
    outer:send(channel)
    channel = outer
  end)
  kept[1] = channel
end

cases["one string many times in a message"] = function()
  local s, list = string.rep("x", 60000), {}
  for i = 1, 100000 do
    list[i] = s
  end
  local channel = worker.channel(10)
  hoard(20, function() return channel:try_send(list) end)
  hoard(20, function() return orrery.values.encode(list) end)
  hoard(20, function() return orrery.json.encode(list) end)
end

cases["many tables in a message"] = function()
  local list = {}
  for i = 1, 200000 do
    list[i] = { i }
  end
  hoard(20, function()
    local channel = worker.channel(10)
    channel:try_send(list)
    return channel
  end)
end

-- --- Primitives ----------------------------------------------------------------------------------

for _, name in ipairs { "mutex", "event", "condition", "queue", "future" } do
  cases[name] = function()
    hoard(3000000, function() return async[name]() end)
  end
end

cases.semaphore = function()
  hoard(3000000, function() return async.semaphore(1) end)
end

cases["primitives that are dropped"] = function()
  for _ = 1, 300000 do
    async.mutex()
    async.queue()
    async.future()
  end
end

cases["items of queues"] = function()
  local queue = async.queue()
  hoard(10000000, function(i) queue:put_nowait(i) end)
  kept[1] = queue
end

cases["small queues"] = function()
  hoard(1000000, function()
    local queue = async.queue()
    queue:put_nowait(1)
    return queue
  end)
end

cases["waiters of a future"] = function()
  local future = async.future()
  hoard(9000, function() return async.run(function() return async.await(future) end) end)
  close_tasks()
end

cases["values of futures"] = function()
  hoard(1000000, function(i)
    local future = async.future()
    future:complete(nil, i, i, i)
    return future
  end)
end

-- --- Tasks and callbacks -------------------------------------------------------------------------

cases.tasks = function()
  hoard(100000, function() return async.run(sleeper) end)
  close_tasks()
end

cases["tasks that are done"] = function()
  hoard(1000000, function(i) return async.run("a name", function() return i, i end) end)
end

cases["tasks that have failed"] = function()
  async.debug(true)
  hoard(200000, function(i)
    local task = async.run({ detached = true }, function() error("e" .. i, 0) end)
    async.pawait(task)
    return task
  end)
end

cases.scopes = function()
  local function nest(depth)
    if depth > 0 then
      async.scope(nest, depth - 1)
    end
  end
  hoard(20, function() nest(1000000) end)
end

cases["scopes of sleeping tasks"] = function()
  local function nest(depth)
    if depth > 0 then
      async.with_timeout(1e9, nest, depth - 1)
    else
      async.sleep(1e9)
    end
  end
  hoard(9000, function() return async.run(nest, 50) end)
  close_tasks()
end

cases.iter = function()
  hoard(2000, function() return async.run(sleeper) end)
  local tasks = {}
  for i = 1, #kept do
    tasks[i] = kept[i]
  end
  hoard(2000, function()
    return async.run(function()
      for _ in async.iter(tasks) do
      end
    end)
  end)
  close_tasks()
end

cases.watchers = function()
  local task = async.run(sleeper)
  hoard(1000000, function() task:on_complete(function() end) end)
  task:close()
end

cases["completed tasks"] = function()
  hoard(5000, function()
    local task = async.run(sleeper)
    task:complete(string.rep("x", 1000), 1)
    return task
  end)
  close_tasks()
end

cases.timers = function()
  hoard(1000000, function() return loop.new_timer() end)
  kept = {}
end

cases["started timers"] = function()
  hoard(1000000, function() return loop.set_timeout(1e9, function() end) end)
  for i = 1, #kept do
    kept[i]:close()
  end
end

cases["due timers"] = function()
  hoard(40000, function() return loop.set_timeout(0, function() async.sleep(1) end) end)
  async.sleep(5)
  for i = 1, #kept do
    kept[i]:close()
  end
end

cases.handlers = function()
  hoard(1000000, function(i) return events:on("event " .. i % 100, function() end) end)
  for i = 0, 99 do
    events:clear("event " .. i)
  end
end

cases["scheduled callbacks"] = function()
  local handles = {}
  hoard(1000000, function(i) handles[#handles + 1] = orrery.schedule(function() end, i, "x") end)
  for _, handle in ipairs(handles) do
    handle:cancel()
  end
end

cases["private loops"] = function()
  hoard(100000, function()
    local private = orrery.eventloop.new()
    private.setTimeout(1e6, function() end)
    private.register("x", function() end)
    private.queueEvent("x", 1)
    return private
  end)
  for i = 1, #kept do
    kept[i].dispose()
  end
end

cases["wrapped coroutines"] = function()
  local next_one = function() return 1 end
  hoard(1000000, function()
    local inner = next_one
    next_one = coroutine.wrap(function()
      coroutine.yield(1)
      return inner()
    end)
    next_one()
  end)
  kept[1] = next_one
end

-- --- All at once ---------------------------------------------------------------------------------

-- Makes random things, and keeps, drops or closes them at random, until enough was refused.
cases.fuzz = function()
  math.randomseed(math.tointeger(tonumber(seed)) or 1)
  local random = math.random
  local channel, queue, intervals = worker.channel(100000), async.queue(), {}
  local job = worker.new "local n, what = ... if n % 3 == 0 then error(what) end return what"
  local function text()
    return string.rep("z", random() < 0.1 and random(200000) or random(300))
  end
  local makers = {
    function() return async.mutex() end,
    function() return async.event() end,
    function() return async.queue(random(5)) end,
    function() return async.semaphore(random(9)) end,
    function() return async.condition() end,
    function() return worker.channel(random(0, 9)) end,
    function() return worker.new("return '" .. text() .. "'", { name = text() }) end,
    function() return worker.new("return 1", { modules = { m = "return '" .. text() .. "'" } }) end,
    function() return loop.set_timeout(random(1e6), function() error(text()) end) end,
    function() intervals[#intervals + 1] = loop.set_interval(random(1e6), function() async.sleep(random(1e6)) end) end,
    function() return async.run(text(), async.sleep, random(1e7)) end,
    function() return async.run({ name = text(), detached = true }, function() error(text(), 0) end) end,
    function() return async.run(function() return text(), text() end) end,
    function()
      return async.run({ detached = true }, async.supervise, function()
        for _ = 1, random(9) do
          async.run(function() error { text() } end)
        end
      end)
    end,
    function() return events:on(text(), function() end) end,
    function() return events:emit("fuzz" .. random(9), text()) end,
    function() return events:on("fuzz" .. random(9), function(data) kept[#kept + 1] = data end) end,
    function() return orrery.schedule(function(...) kept[#kept + 1] = { ... } end, text()) end,
    function() return channel:try_send(text(), { text() }, worker.channel(1)) end,
    function() return channel:try_receive() end,
    function() return queue:put_nowait(text()) end,
    function() return queue:get_nowait() end,
    function() job:run(random(9), text(), { callback = function(...) kept[#kept + 1] = { ... } end }) end,
    function()
      local future = async.future()
      async.run({ detached = true }, async.await, future)
      if random(2) == 1 then
        future:complete(nil, text())
      end
      return future
    end,
    function()
      local private = orrery.eventloop.new()
      private.setTimeout(random(1e6), function() end)
      return private
    end,
    function() return coroutine.wrap(function() coroutine.yield(text()) end) end,
    function() return orrery.values.encode { text(), text() } end,
    function() return async.run(async.with_timeout, random(1e6), async.scope, sleeper) end,
    function() async.sleep(0) end,
    function()
      for _ = 1, random(1000) do
        kept[random(#kept + 1)] = nil
      end
    end,
    function()
      local thing = kept[random(#kept + 1)]
      if type(thing) == "userdata" then
        pcall(function() thing:close() end)
      end
    end,
  }
  local steps = 0
  repeat -- until it is enough
    steps = steps + 1
    if not pcall(function() kept[#kept + 1] = makers[random(#makers)]() end) then
      refusals = refusals + 1
      if refusals % 50 == 0 then
        pcall(async.sleep, 1)
      end
    end
  until steps == 30000 or refusals == 300
  for _, timer in ipairs(intervals) do
    timer:close() -- it would repeat for ever
  end
end

local run = cases[case]
if not run then
  local names = {}
  for name in pairs(cases) do
    names[#names + 1] = name
  end
  table.sort(names)
  print(table.concat(names, "\n"))
  return
end
-- Everything runs in a task, which is closed at the end: otherwise what is left would go on.
local ok, err = pcall(run)
print(ok and "done" or "ended: " .. tostring(err):sub(1, 200), refusals .. " refused")
kept = nil
