-- The examples of the document on structured concurrency, word for word and in its order: the
-- patterns at its end.  Where the document is wrong, the test says what really happens.

local check = require "check"
local example = require "example"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note
local time_is, busy, in_order = example.time_is, example.busy, example.in_order

local function noting(word)
  return function(...)
    note(word, ...)
  end
end

-- --- Practical patterns --------------------------------------------------------------------------

local a_race = [[
local parent_task
parent_task = vim.async.run(function()
  vim.async.run(function()
    local result = fetch_from_cache()
    parent_task:complete(result)
  end)

  vim.async.run(function()
    local result = fetch_from_network()
    parent_task:complete(result)
  end)

  -- Wait forever - children will complete the parent
  vim.async.await(function(_) end)
end)

local result = parent_task:wait()
]]

local function fetches(cache, network)
  local function fetch(name, ms)
    return function()
      async.sleep(ms)
      note(name)
      return name
    end
  end
  return { fetch_from_cache = fetch("cache", cache), fetch_from_network = fetch("network", network) }
end

test("the first of two racing children completes their parent, and the other is closed", function()
  local run = example.run(a_race, fetches(30, 10), "keep(result, parent_task:status())")
  equal(run.kept[1], "network")
  equal(run.kept[2], "completed")
  check.notes "network"
  time_is(10)
  equal(run.tasks[1]:wait(), "network")
  equal(select(2, run.tasks[2]:pwait()), "closed")
end)

test("of two that arrive at the same time the first wins, and nothing fails", function()
  local run = example.run(a_race, fetches(10, 10), "keep(result)")
  equal(run.kept[1], "cache")
  time_is(10)
end)

test("a racing child that fails fails the race", function()
  local supplied = fetches(30, 10)
  supplied.fetch_from_network = function()
    async.sleep(10)
    error("unreachable", 0)
  end
  local run, err = example.fails("unreachable", a_race, supplied)
  equal(err, "unreachable")
  equal(example.outcomes(run), "failed closed failed")
  time_is(10)
end)

local limited = [[
local semaphore = vim.async.semaphore(5)

local tasks = {}
for i = 1, 100 do
  tasks[i] = vim.async.run(function()
    semaphore:with(function()
      process_item(i)
    end)
  end)
end

vim.async.run(function()
  vim.async.await_all(tasks)
end):wait()
]]

test("a hundred items are processed five at once", function()
  local work = busy(1)
  local run = example.run(limited, { process_item = work.fn })
  in_order(work.began, 100)
  equal(work.most, 5)
  time_is(20)
  equal(example.outcomes(run), ("done "):rep(101):sub(1, -2))
end)

local a_timeout = [[
local task = vim.async.run(long_operation)

vim.async.run(function()
  vim.async.timeout(5000, task)
end):wait()
]]

test("an operation that is quick enough is not timed out", function()
  local run = example.run(a_timeout, {
    long_operation = function()
      async.sleep(100)
      return "result"
    end,
  })
  time_is(100)
  equal(run.tasks[1]:wait(), "result")
end)

test("an operation that takes too long is closed, and the wait for it fails with timeout", function()
  local run, err = example.fails("timeout", a_timeout, {
    long_operation = function()
      async.sleep(60000)
    end,
  })
  equal(err, "timeout")
  time_is(5000)
  equal(example.outcomes(run), "closed failed")
end)

test("an operation that was timed out is closed when the wait for it ends", function()
  local source, count = a_timeout:gsub(":wait%(%)", ":pwait()")
  equal(count, 1)
  local run = example.start(source, {
    long_operation = function()
      async.sleep(60000)
    end,
  }, "keep(task:status())")
  run.script:wait()
  equal(run.kept[1], "completed")
  time_is(5000)
  equal(example.outcomes(run), "closed failed")
end)

test("an operation that fails in time fails the wait for it with its own error", function()
  local run, err = example.fails("broken", a_timeout, {
    long_operation = function()
      async.sleep(100)
      error("broken", 0)
    end,
  })
  equal(err, "broken")
  time_is(100)
  equal(example.outcomes(run), "failed failed")
end)

local background = [[
local background = vim.async.run(function()
  while not vim.async.is_closing() do
    local work = get_next_work()
    if work then
      process(work)
    end
    vim.async.sleep(100)
  end

  cleanup()
end)

-- Later: cancel gracefully
background:close()
]]

test("background work ends at once when it is closed in its sleep", function()
  local run = example.run(background, {
    get_next_work = function()
      return "work"
    end,
    process = noting "process",
    cleanup = noting "cleanup",
  })
  check.notes "process work"
  equal(example.outcomes(run), "closed")
  time_is(0)
end)

test("background work goes on until it is closed", function()
  local source, count = background:gsub("background:close%(%)", "")
  equal(count, 1)
  local left = 3
  local run = example.start(source, {
    get_next_work = function()
      left = left - 1
      return left >= 0 and left or nil
    end,
    process = noting "process",
  })
  async.sleep(1050)
  check.notes "process 2; process 1; process 0"
  equal(left, -8)
  run.script:close()
  equal(run.script:status(), "completed")
  time_is(1050)
end)

local an_option = [[
local optional = vim.async.run(fetch_optional_data)
local ok, result = optional:pwait(100)

if ok then
  use_optional_data(result)
else
  use_default_data()
end
]]

local function option(ms, fail)
  return {
    fetch_optional_data = function()
      async.sleep(ms)
      if fail then
        error("none today", 0)
      end
      return "data"
    end,
    use_optional_data = noting "optional",
    use_default_data = noting "default",
  }
end

test("optional data that comes in time is used", function()
  example.run(an_option, option(50))
  check.notes "optional data"
  time_is(50)
end)

test("the default is used when the optional data is late", function()
  local run = example.start(an_option, option(250))
  async.sleep(101)
  check.notes "default"
  equal(example.outcomes(run), "awaiting")
  run.script:wait()
  check.notes "default"
  time_is(250)
end)

test("the default is used when fetching the optional data fails", function()
  local run = example.run(an_option, option(50, true))
  check.notes "default"
  time_is(50)
  equal(example.outcomes(run), "failed")
end)
