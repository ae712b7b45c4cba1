-- Tasks from Lua: starting, awaiting, failing, closing.

local check = require "check"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note

test("a task starts at once and runs up to its first wait", function()
  local task = async.run(function()
    note "begins"
    async.sleep(1)
    note "ends"
  end)
  note "goes on"
  async.await(task)
  check.notes "begins; goes on; ends"
end)

test("arguments and results keep their nils and their count", function()
  local function all(...)
    return select("#", ...), ...
  end
  equal(select("#", async.await(async.run(all, nil, nil))), 3)
  equal(select("#", async.await(async.run(function() end))), 0)
  local a, b, c, d = async.await(async.run(all, 1, nil, 3))
  equal(a, 3)
  equal(b, 1)
  equal(c, nil)
  equal(d, 3)
end)

-- --- The first step ------------------------------------------------------------------------------

-- A task that ends in its first step has no anchor and borrows its coroutine: see
-- src/lua/task/task.h.  These first warm up the pool of coroutines.

local function nothing() end
for _ = 1, 4 do
  async.run(nothing)
end

test("a task that asks for its handle in its first step gets the one that run returns", function()
  local own
  local task = async.run(function()
    own = async.current()
  end)
  equal(own, task)
  equal(task:status(), "completed")
end)

test("the result of a task that has ended at once stays", function()
  local value = {}
  local tasks = {}
  for i = 1, 300 do
    tasks[i] = async.run(function() return value, i % 2 == 0 and i or nil end)
    async.run(nothing)
  end
  local one = async.run(function() return value end)
  collectgarbage()
  collectgarbage()
  equal(async.await(one), value)
  for i = 1, 300 do
    local first, second = async.await(tasks[i])
    equal(first, value)
    equal(second, i % 2 == 0 and i or nil)
  end
end)

test("the result of a task that has ended at once goes with its handle", function()
  local weak = setmetatable({}, { __mode = "v" })
  for i = 1, 10 do
    weak[i] = {}
    async.run(function() return weak[i] end)
  end
  collectgarbage()
  collectgarbage()
  equal(next(weak), nil)
end)

test("a collection in the first step leaves the task and its coroutine alone", function()
  local function collect_inside()
    coroutine.wrap(function()
      collectgarbage()
      async.run(function()
        collectgarbage()
        for _ = 1, 300 do
          async.run(nothing)
        end
      end)
      collectgarbage()
    end)()
    return "done"
  end
  equal(async.await(async.run(collect_inside)), "done")
end)

test("a task may fail, wait or leave a child behind in its first step", function()
  local failed = async.run({ detached = true }, function() error("at once", 0) end)
  equal(select(2, async.pawait(failed)), "at once")
  local child
  local parent = async.run(function()
    child = async.run(function()
      async.sleep(5)
      return "child"
    end)
    return "parent"
  end)
  equal(parent:status(), "awaiting")
  equal(async.await(parent), "parent")
  equal(async.await(child), "child")
end)

test("a task that closes itself in its first step is closed", function()
  local task = async.run(function()
    async.current():close()
    return "not kept"
  end)
  equal(select(2, async.pawait(task)), "closed")
end)

test("a coroutine that a script has kept is not used for another task", function()
  local kept
  async.run(function() kept = coroutine.running() end)
  for _ = 1, 10 do
    async.run(function() equal(coroutine.running() == kept, false) end)
  end
end)
