-- Cancellation from Lua: every primitive, before, during and after its grant; who closes whom; and
-- that nothing is lost.

local check = require "check"
local async = require("orrery").async
local test, equal, note, raises = check.test, check.equal, check.note, check.raises

-- The primitives.  `make` returns the wait, what grants it, and a check that the primitive is as if
-- the waiter had never come.
local primitives = {
  event = function()
    local event = async.event()
    return function() event:wait() end, function() event:set() end, function() event:set() event:wait() end
  end,
  ["queue get"] = function()
    local queue = async.queue()
    local sent, got = 0, 0
    return function() queue:get() got = got + 1 end, function() queue:put_nowait "item" sent = sent + 1 end, function()
      equal(#queue, sent - got)
      queue:put_nowait "more"
      equal(type(queue:get()), "string")
    end
  end,
  ["queue put"] = function()
    local queue, puts = async.queue(1), 0
    queue:put "first"
    return function() queue:put "second" puts = puts + 1 end, function() equal(queue:get(), "first") end, function()
      while queue:get_nowait() do
        puts = puts - 1
      end
      queue:put "third"
      equal(queue:get(), "third")
    end
  end,
  semaphore = function()
    local semaphore, taken = async.semaphore(1), 0
    semaphore:acquire()
    return function() semaphore:acquire() taken = 1 end, function() semaphore:release() end, function(granted)
      if not granted or taken == 1 then
        semaphore:release()
      end
      equal(semaphore:try_acquire(), true, "the permit")
      semaphore:release()
    end
  end,
  mutex = function()
    local mutex = async.mutex()
    mutex:lock()
    return function() local _ <close> = mutex:lock() or mutex end, function() mutex:unlock() end, function(granted)
      if not granted then
        mutex:unlock()
      end
      equal(mutex:try_lock(), true, "the lock")
      mutex:unlock()
    end
  end,
  condition = function()
    local mutex, condition = async.mutex(), async.condition()
    return function()
      mutex:lock()
      local _ <close> = mutex
      condition:wait(mutex)
    end, function() condition:notify() end, function()
      async.sleep(0)
      equal(mutex:try_lock(), true, "the lock")
      mutex:unlock()
    end
  end,
  future = function()
    local future = async.future()
    return function() async.await(future) end, function() future:complete(nil) end, function() end
  end,
  task = function()
    local gate = async.event()
    local task = async.run(function() gate:wait() return "v" end)
    return function() async.await(task) end, function() gate:set() end, function() gate:set() equal(async.await(task), "v") end
  end,
  sleep = function()
    return function() async.sleep(5) end, function() end, function() end
  end,
  callback = function()
    local saved
    return function() async.await(function(callback) saved = callback end) end, function() saved(1) end,
      function() if saved then saved(2) end end
  end,
  any = function()
    local gate = async.event()
    local tasks = { async.run(function() gate:wait() end), async.run(function() gate:wait() end) }
    return function() async.await_any(tasks) end, function() gate:set() end, function() gate:set() async.await_all(tasks) end
  end,
  ["scope leave"] = function()
    local gate = async.event()
    return function() async.scope(function() async.run(function() gate:wait() end) end) end, function() gate:set() end,
      function() end
  end,
  coroutine = function()
    local event = async.event()
    return function() coroutine.wrap(function() event:wait() end)() end, function() event:set() end, function() end
  end,
}

local names = {}
for name in pairs(primitives) do
  names[#names + 1] = name
end
table.sort(names)

for _, name in ipairs(names) do
  test(name .. ": cancelled before it waits, nothing is taken", function()
    local wait, _, intact = primitives[name]()
    local task = async.run(function()
      async.current():close()
      equal(async.is_closing(), true)
      raises("closed", wait)
      raises("closed", wait)
    end)
    async.pawait(task)
    intact(false)
  end)

  test(name .. ": cancelled while it waits, nothing is lost", function()
    local wait, grant, intact = primitives[name]()
    local task = async.run(function()
      local ok, err = pcall(wait)
      note(ok, err)
      raises("closed", async.sleep, 1)
    end)
    equal(task:status(), "awaiting")
    task:close()
    async.pawait(task)
    check.notes "false closed"
    if name ~= "callback" and name ~= "queue put" and name ~= "semaphore" and name ~= "mutex" then
      grant()
    end
    intact(false)
  end)

  test(name .. ": cancelled when it has been granted, it is handed on or kept", function()
    local wait, grant, intact = primitives[name]()
    local task = async.run(function() note(pcall(wait)) end)
    if name == "sleep" then
      return task:close()
    end
    grant()
    task:close()
    async.pawait(task)
    intact(true)
  end)

  test(name .. ": two wait, one is cancelled as it is granted, the other is served", function()
    local wait, grant = primitives[name]()
    if name == "callback" or name == "queue put" or name == "sleep" then
      return
    end
    local first = async.run(function() pcall(wait) end)
    local second = async.run(function() wait() note "served" end)
    first:close()
    grant()
    async.with_timeout(50, async.await, second)
    check.notes "served"
    async.pawait(first)
  end)
end

-- --- Who closes whom -----------------------------------------------------------------------------

test("a task that closes itself hears of it at its next wait, and at every one after", function()
  local task = async.run(function()
    async.current():close()
    note(async.is_closing())
    for _ = 1, 3 do
      note(select(2, pcall(async.sleep, 1)))
    end
    note(select(2, pcall(async.checkpoint)))
    return "returned"
  end)
  note(async.pawait(task))
  check.notes "true; closed; closed; closed; closed; false closed"
end)

test("a task that closes its parent runs on to its next wait", function()
  local parent
  parent = async.run(function()
    parent = async.current()
    async.run(function()
      equal(parent:status(), "normal")
      parent:close()
      note "child runs on"
      raises("closed", async.sleep, 1)
      note "child told"
    end)
    note "parent goes on"
    raises("closed", async.sleep, 1)
    note "parent told"
  end)
  async.pawait(parent)
  check.notes "child runs on; child told; parent goes on; parent told"
end)

test("a task that closes a sibling that waits lets it clean up before it goes on", function()
  local sibling = async.run(function()
    local _ <close> = setmetatable({}, { __close = function() note "sibling closed" end })
    async.sleep(100)
  end)
  async.await(async.run(function()
    sibling:close()
    note "goes on"
  end))
  check.notes "sibling closed; goes on"
  equal(sibling:status(), "completed")
end)

test("close goes down in the order of creation, the task before its children", function()
  local function waits(name, inner)
    return function()
      local _ <close> = setmetatable({}, { __close = function() note(name) end })
      if inner then
        inner()
      end
      async.sleep(100)
    end
  end
  local task = async.run(waits("top", function()
    async.run(waits("a", function() async.run(waits "a1") async.run(waits "a2") end))
    async.run(waits "b")
  end))
  task:close()
  check.notes "top; a; a1; a2; b"
  async.pawait(task)
end)

test("closing a waiting task takes effect at once, and a second close does nothing", function()
  local task = async.run(async.sleep, 100)
  equal(task:close(), task)
  equal(task:status(), "completed")
  task:close()
  equal(async.is_closing(), false)
end)

test("a task that a closing task starts is closed from the beginning", function()
  local task = async.run(function()
    async.current():close()
    async.run(function()
      note(async.is_closing())
      note(select(2, pcall(async.sleep, 1)))
    end)
  end)
  async.pawait(task)
  check.notes "true; closed"
end)

test("closing where it cannot wait runs the cleanup all the same", function()
  local task = async.run(function()
    local _ <close> = setmetatable({}, { __close = function() note "closed" end })
    async.sleep(100)
  end)
  string.gsub("a", "a", function() task:close() end)
  check.notes "closed"
end)

test("a task closed in its cleanup goes on with it", function()
  local task
  task = async.run(function()
    pcall(async.sleep, 100)
    async.shield(function()
      async.sleep(5)
      task:close()
      async.sleep(5)
    end)
    note(check.elapsed())
  end)
  task:close()
  async.pawait(task)
  check.notes "10"
end)

-- --- It stays so ---------------------------------------------------------------------------------

test("a task that was closed ends as closed, whatever its function returns", function()
  local function catches()
    pcall(async.sleep, 1000)
    return "a result", "and another"
  end
  local task = async.run(catches)
  task:close()
  equal(task:status(), "completed")
  equal(table.concat({ select(2, async.pawait(task)) }, " "), "closed")
  equal(#task:errors(), 0)
  local told
  task:on_complete(function(...) told = table.pack(...) end)
  async.sleep(1)
  equal(told.n, 1)
  equal(told[1], "closed")
end)

test("a task that closes itself and returns ends as closed", function()
  equal(select(2, async.pawait(async.run(function()
    async.current():close()
    return 1
  end))), "closed")
  local task = async.run(function() async.shield(async.sleep, 5) return 1 end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
end)

test("a task keeps its results when only one of its blocks has expired", function()
  equal(async.await(async.run(function()
    local ok = pcall(async.with_timeout, 5, async.sleep, 10)
    return ok
  end)), false)
  local task = async.run(async.sleep, 100)
  task:complete "given"
  equal(async.await(task), "given")
end)

test("a closed task that fails has failed", function()
  local task = async.run({ detached = true }, function()
    pcall(async.sleep, 1000)
    error("cleanup", 0)
  end)
  task:close()
  equal(select(2, async.pawait(task)), "cleanup")
end)

-- --- Bodies that wait themselves -----------------------------------------------------------------

-- Each returns the arguments of async.run, what grants the wait, and whether the primitive has all
-- that it had.
local bare = {
  event = function()
    local event = async.event()
    return { event.wait, event }, function() event:set() end, function() return event:set() == 0 end
  end,
  ["queue get"] = function()
    local queue = async.queue()
    return { queue.get, queue }, function() queue:put_nowait(1) end, function()
      queue:put_nowait(2)
      return queue:get() == 2
    end
  end,
  semaphore = function()
    local semaphore = async.semaphore(1)
    semaphore:acquire()
    return { semaphore.acquire, semaphore }, function() semaphore:release() end, function()
      semaphore:release()
      return semaphore:try_acquire()
    end
  end,
  mutex = function()
    local mutex = async.mutex()
    mutex:lock()
    return { mutex.lock, mutex }, function() mutex:unlock() end, function()
      mutex:unlock()
      return mutex:try_lock()
    end
  end,
  future = function()
    local future = async.future()
    return { async.await, future }, function() future:complete(nil, 1) end, function() return true end
  end,
  sleep = function()
    return { async.sleep, 5 }, function() async.sleep(5) end, function() return true end
  end,
}

for name, make in pairs(bare) do
  test(name .. " as a body: closed while it waits, it has ended when close returns", function()
    local body, _, intact = make()
    local task = async.run(table.unpack(body))
    local awaiting = async.run(function() note(async.pawait(task)) end)
    task:on_complete(function(err) note("told", err) end)
    equal(task:status(), "awaiting")
    equal(task:close(), task)
    equal(task:status(), "completed")
    equal(#task:errors(), 0)
    async.await(awaiting)
    async.sleep(1)
    check.notes "false closed; told closed"
    equal(intact(), true, "the primitive")
    equal(task:close(), task)
  end)

  test(name .. " as a body: closed when it has been granted, it ends as closed", function()
    local body, grant = make()
    local task = async.run(table.unpack(body))
    grant()
    local over = task:status() == "completed"
    task:close()
    note(over or select(2, async.pawait(task)))
    check.notes(over and "true" or "closed")
  end)

  test(name .. " as a body: a scope that fails cancels it", function()
    local body = make()
    raises("failed", async.scope, function()
      async.run(table.unpack(body))
      error("failed", 0)
    end)
  end)
end

test("a body that waits itself lets go of its arguments when it is closed", function()
  local event, weak = async.event(), setmetatable({ {} }, { __mode = "v" })
  local task = async.run(event.wait, event, weak[1])
  collectgarbage()
  equal(type(weak[1]), "table")
  task:close()
  collectgarbage()
  equal(weak[1], nil)
  equal(task:status(), "completed")
end)

test("a body that waits inside xpcall is told that it is closed", function()
  local task = async.run(xpcall, async.sleep, note, 1000)
  task:close()
  check.notes "closed"
  equal(task:status(), "completed")
end)

test("a body that waits inside a shield goes on when it is closed", function()
  local task = async.run(async.shield, async.sleep, 5)
  task:close()
  equal(task:status(), "awaiting")
  equal(select(2, async.pawait(task)), "closed")
  equal(check.elapsed(), 5)
end)

test("a task that waits itself and was completed keeps its results when it is closed", function()
  local task = async.run(async.sleep, 100)
  task:complete("given", 2)
  task:close()
  note(async.await(task))
  check.notes "given 2"
end)

test("tasks end in the order of the tree, whether their bodies wait themselves or not", function()
  local function watched(word, task)
    return task:on_complete(function() note(word) end)
  end
  local parent = async.run(function()
    watched("first", async.run(async.sleep, 100))
    watched("second", async.run(function() pcall(async.sleep, 100) end))
    watched("third", async.run(async.sleep, 100))
    async.sleep(100)
  end)
  parent:close()
  async.sleep(1)
  check.notes "first; second; third"
end)
