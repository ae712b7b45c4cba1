-- Many tasks, deep trees, random actions, and a busy collector.

local check = require "check"
local async = require("orrery").async
local test, equal = check.test, check.equal

local seed = tonumber(os.getenv "ORR_TEST_SEED") or 20240229
print("ORR_TEST_SEED=" .. seed)
local scale = tonumber(os.getenv "ORR_TEST_SCALE") or 1
local random = math.random
local SEEDS = 10 -- random trees in each mode of the collector, each with a seed of its own

test("a hundred thousand nested awaits, eager starts and immediate callbacks", function()
  local count = 100000 // scale
  local function await_below(n)
    return n == 0 and 0 or async.await(async.run(await_below, n - 1)) + 1
  end
  equal(await_below(count), count)
  local started = 0
  local function start_below(n)
    started = started + 1
    if n > 1 then async.run(start_below, n - 1) end
  end
  async.scope(start_below, count)
  equal(started, count)
  for i = 1, count do
    equal(async.await(function(callback) callback(i) end), i)
  end
end)

test("a deep chain is closed, and fails, without growing the stack", function()
  local count = 50000 // scale
  local function chain(n, bottom)
    if n == 0 then return bottom() end
    return async.await(async.run(chain, n - 1, bottom))
  end
  local closed = async.run(chain, count, function() async.sleep(1e6) end)
  closed:close()
  equal(select(2, async.pawait(closed)), "closed")
  local problem = {}
  local failed = async.run(chain, count, function() async.sleep(1) error(problem) end)
  equal(select(2, async.pawait(failed)), problem)
end)

test("a million tasks sleep at once", function()
  local count, done = 1000000 // scale, 0
  async.scope(function()
    for _ = 1, count do
      async.run(function()
        async.sleep(1000)
        done = done + 1
      end)
    end
  end)
  equal(done, count)
  equal(check.elapsed(), 1000)
end)

-- A random tree that does everything that tasks can do; every task checks the guarantees.
local function random_tree(budget, semaphore, queue, event)
  local living, spent = 0, 0
  local acts
  local function body(depth)
    living = living + 1
    -- luacheck: ignore
    local mine <close> = setmetatable({}, { __close = function() living = living - 1 end })
    local children = {}
    for _ = 1, random(1, 6) do
      spent = spent + 1
      if spent > budget then break end
      acts[random(#acts)](depth, children)
    end
    return depth
  end
  local function start(depth, children)
    if depth > 12 or living > 2000 then return end
    children[#children + 1] = async.run({ detached = random(20) == 1 }, body, depth + 1)
  end
  acts = {
    start, start, start,
    function() async.sleep(random(0, 5)) end,
    function() async.checkpoint() end,
    function() semaphore:with(async.sleep, random(0, 2)) end,
    function() queue:put_nowait({}) end,
    function() async.move_on_after(random(0, 3), queue.get, queue) end,
    function() async.move_on_after(random(0, 3), event.wait, event) end,
    function() event:set(random(0, 3)) event:clear() end,
    function(_, children) if children[1] then children[random(#children)]:close() end end,
    function(_, children) if children[1] then async.pawait(children[random(#children)]) end end,
    function(_, children) if children[1] then pcall(async.await_any, children) end end,
    function(depth) async.scope(function() start(depth, {}) end) end,
    function() pcall(async.shield, async.sleep, 1) end,
    function() if random(10) == 1 then error({}) end end,
    function() if random(50) == 1 then collectgarbage() end end,
    function(_, children) if children[1] then children[#children]:complete(1) end end,
    function() if random(30) == 1 then async.current():close() end end,
    function() coroutine.wrap(function() async.sleep(1) coroutine.yield() end)() end,
  }
  while spent < budget do
    local root = async.run({ detached = true }, body, 0)
    async.move_on_after(random(0, 50), async.pawait, root)
    root:close()
    async.pawait(root)
    equal(root:status(), "completed")
  end
  async.sleep(1000)
  equal(living, 0)
end

-- Reports the failures of a test at its end: they are told when their handles are collected.
local function report_failures()
  for _ = 1, 2 do
    collectgarbage()
    async.sleep(1)
  end
end

for _, mode in ipairs { "incremental", "generational" } do
  test("random trees keep their promises, collected in the " .. mode .. " mode", { errors = true }, function()
    collectgarbage(mode)
    local semaphore, queue, event = async.semaphore(3), async.queue(), async.event()
    for i = 0, SEEDS - 1 do
      math.randomseed(seed + i)
      local ok, problem = pcall(random_tree, 100000 // SEEDS // scale, semaphore, queue, event)
      if not ok then
        error(("ORR_TEST_SEED=%d: %s"):format(seed + i, problem), 0)
      end
    end
    for _ = 1, 3 do
      check.truthy(semaphore:try_acquire(), "every permit is back")
    end
    equal(semaphore:try_acquire(), false)
    collectgarbage "incremental"
    report_failures()
  end)
end

-- This task also holds permits and the lock, and gives items. It gives back and closes waiters in
-- one step: some are closed after it has become their turn, and before they run. Children of others
-- fail at such a moment.
test("waiters that end when it is their turn lose no permit, lock or item", { errors = true }, function()
  local rounds = 20000 // scale // SEEDS
  for i = 0, SEEDS - 1 do
    math.randomseed(seed + i)
    local semaphore, mutex, queue = async.semaphore(3), async.mutex(), async.queue()
    local waiters, held, locked, put, got = {}, 0, false, 0, 0
    local function fail_soon()
      async.sleep(random(0, 1))
      error("fails", 0)
    end
    local function wait(fn, ...)
      waiters[#waiters + 1] = async.run({ detached = true }, function(...)
        if random(5) == 1 then async.run(fail_soon) end
        fn(...)
      end, ...)
    end
    local function get()
      queue:get()
      got = got + 1
    end
    local acts = {
      function() wait(semaphore.with, semaphore, async.sleep, random(0, 1)) end,
      function() wait(mutex.with, mutex, async.sleep, random(0, 1)) end,
      function() wait(get) end,
      function() held = held + (semaphore:try_acquire() and 1 or 0) end,
      function()
        if held > 0 then
          held = held - 1
          semaphore:release()
        end
      end,
      function() locked = locked or mutex:try_lock() end,
      function()
        if locked then mutex:unlock() end
        locked = false
      end,
      function()
        put = put + 1
        queue:put_nowait(put)
      end,
      function()
        for _ = 1, math.min(#waiters, random(6)) do
          table.remove(waiters, random(#waiters)):close()
        end
      end,
      function() if random(4) == 1 then async.sleep(random(0, 1)) end end,
    }
    for _ = 1, rounds do
      acts[random(#acts)]()
    end
    for _, waiter in ipairs(waiters) do
      waiter:close()
    end
    async.sleep(1000)
    local what = "; ORR_TEST_SEED=" .. seed + i
    equal(got + #queue, put, "every item was taken or is left" .. what)
    check.truthy(locked or mutex:try_lock(), "the lock is free" .. what)
    mutex:unlock()
    for _ = held + 1, 3 do
      check.truthy(semaphore:try_acquire(), "every permit is back" .. what)
    end
    equal(semaphore:try_acquire(), false, "no permit was made" .. what)
  end
  report_failures()
end)

test("tasks survive a full collection at every line", function()
  local function collected(fn)
    return function(...)
      debug.sethook(function() collectgarbage() end, "l")
      local results = table.pack(pcall(fn, ...))
      debug.sethook()
      if not results[1] then error(results[2], 0) end
      return table.unpack(results, 2, results.n)
    end
  end
  local queue, event, sum = async.queue(1), async.event(), 0
  async.scope(function()
    async.run(collected(function()
      for i = 1, 20 do
        queue:put({ i })
      end
      queue:close()
    end))
    async.run(collected(function()
      for item in function() return queue:get() end do
        sum = sum + item[1]
      end
      event:set()
    end))
    async.run(collected(function()
      event:wait()
      local child = async.run(collected(function()
        local step = coroutine.wrap(collected(function() async.sleep(1) return "a", "b" end))
        return step()
      end))
      local a, b = async.await(child)
      equal(a .. b, "ab")
      local closed = async.run(collected(function() async.sleep(1000) end))
      closed:close()
      equal(select(2, async.pawait(closed)), "closed")
      equal(pcall(async.await, async.run(collected(error), {})), false)
    end))
  end)
  equal(sum, 210)
end)

test("everything is collected when it is done", function()
  local function work()
    async.scope(function()
      for i = 1, 1000 do
        local task = async.run(function() async.sleep(i % 5) return {} end)
        if i % 3 == 0 then task:close() end
      end
    end)
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end
  work()
  local before = work()
  for _ = 1, 10 do work() end
  check.truthy(work() < before * 1.1 + 100, "memory does not grow")
end)

test("an orphan task is closed and cleans up", function()
  local state = setmetatable({}, { __mode = "v" })
  async.run({ detached = true }, function()
    -- luacheck: ignore
    local cleanup <close> = setmetatable({}, { __close = function() state.closed = check end })
    async.event():wait()
  end)
  for i = 1, 1000 do -- tasks are inspected a few at a time
    if i % 100 == 1 then collectgarbage() end
    async.sleep(1)
  end
  equal(state.closed, check)
end)
