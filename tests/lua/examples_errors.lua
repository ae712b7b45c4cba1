-- The examples of the document on structured concurrency, word for word and in its order: errors
-- and cancellation.  Where the document is wrong, the test says what really happens.

local check = require "check"
local example = require "example"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note
local time_is = example.time_is

local function compute_something()
  note "computed"
  return 1
end

-- --- Error handling ------------------------------------------------------------------------------

local error_ends_a_sleep = [[
local parent = vim.async.run(function()
  local child1 = vim.async.run(function()
    vim.async.sleep(50)
    error("something broke")  -- child1 errors at 50ms
  end)

  local child2 = vim.async.run(function()
    while true do
      vim.async.sleep(10)
    end
  end)

  -- Parent is running synchronously here
  -- child1 and child2 are suspended, cannot run yet
  print("Still running...")
  local x = 1 + 1

  -- Parent suspends here, event loop takes over
  -- Event loop resumes child1, which sleeps 50ms then errors
  -- The parent's sleep is cancelled at 50ms
  -- Parent resumes immediately (not after 100ms) and receives the error
  vim.async.sleep(100)  -- Cancelled at 50ms, error delivered on resume
end)
]]

test("a parent's sleep ends when its child fails, and not when its time is up", function()
  local run = example.start(error_ends_a_sleep)
  check.notes "Still running..."
  equal(example.outcomes(run), "awaiting awaiting awaiting")
  local err = check.raises("something broke", run.script.wait, run.script)
  time_is(50)
  equal(example.outcomes(run), "failed failed closed")
  equal(err:match "^example:%d+: (.*)", "something broke")
end)

local synchronous_code = [[
vim.async.run(function()
  local child = vim.async.run(function()
    vim.async.sleep(10)
    error("child failed")
  end)

  -- This entire synchronous block runs uninterrupted
  -- child is suspended, cannot run during this
  for i = 1, 1000000 do
    math.sqrt(i)
  end

  -- Parent suspends here (wants to wait 1000ms)
  -- Event loop resumes child
  -- child sleeps 10ms, then errors
  -- Parent's sleep is cancelled at 10ms
  -- Parent resumes immediately with the error
  vim.async.sleep(1000)  -- Cancelled at 10ms, error delivered on resume
end)
]]

test("synchronous code runs uninterrupted; the error comes at the wait after it", function()
  local run = example.fails("child failed", synchronous_code)
  time_is(10)
  equal(example.outcomes(run), "failed failed")
end)

local caught = [[
vim.async.run(function()
  local child = vim.async.run(risky_operation)

  local x = compute_something()  -- Runs synchronously while child suspended

  local ok, result = pcall(function()
    -- Parent suspends, event loop runs child
    -- If child errors, sleep is cancelled and parent resumes with error
    vim.async.sleep(1)
  end)

  if not ok then
    print("Caught error:", result)
  end
end)
]]

test("an error of a child is caught with pcall", function()
  local run = example.run(caught, {
    compute_something = compute_something,
    risky_operation = function()
      async.checkpoint()
      error("too risky", 0)
    end,
  })
  check.notes "computed; Caught error: too risky"
  equal(example.outcomes(run), "done failed")
end)

test("the error of a child that failed as it began is delivered at its parent's next wait", function()
  local run = example.run(caught, {
    compute_something = compute_something,
    risky_operation = function()
      error("too risky", 0)
    end,
  })
  check.notes "computed; Caught error: too risky"
  time_is(0)
  equal(example.outcomes(run), "done failed")
end)

test("the error is the value that was raised, a table too", function()
  local value = setmetatable({}, {
    __tostring = function()
      return "a table"
    end,
  })
  example.run(caught, {
    compute_something = compute_something,
    risky_operation = function()
      async.checkpoint()
      error(value)
    end,
    print = function(_, err)
      check.truthy(rawequal(err, value), "it is the same table")
      note "caught"
    end,
  })
  check.notes "computed; caught"
end)

test("nothing is caught when the child does not fail", function()
  example.run(caught, { compute_something = compute_something, risky_operation = async.checkpoint })
  check.notes "computed"
  time_is(1)
end)

local edge_triggered = [[
vim.async.run(function()
  local child = vim.async.run(function()
    vim.async.sleep(10)
    error("child failed")
  end)

  -- First await - error is caught
  local ok, err = pcall(function()
    vim.async.sleep(100)  -- Child error delivered here
  end)

  if not ok then
    print("Caught error:", err)
    -- Error has been consumed, can continue safely
  end

  -- Second await - no error re-issued
  vim.async.sleep(1)  -- This works fine
  print("Continued after handling error")
end)
]]

test("an error that was caught is not delivered again", function()
  local run = example.start(edge_triggered)
  equal(example.outcomes(run), "awaiting awaiting")
  run.script:wait()
  check.notes "Caught error: example:4: child failed; Continued after handling error"
  time_is(11)
  equal(example.outcomes(run), "done failed")
end)

local level_triggered = [[
vim.async.run(function()
  local task = vim.async.run(function()
    local ok, err = pcall(function()
      vim.async.sleep(100)
    end)

    if not ok and err == "closed" then
      print("Caught first cancellation")
      -- Cancellation state persists
    end

    -- Second await - cancellation re-issued!
    vim.async.sleep(1)  -- Throws "closed" again
  end)

  task:close()
end)
]]

test("a cancellation that was caught is delivered again at each wait", function()
  local run = example.start(level_triggered)
  check.notes "Caught first cancellation"
  equal(run.script:status(), "completed")
  equal(example.outcomes(run), "done closed")
  time_is(0)
end)

local graceful = [[
vim.async.run(function()
  while not vim.async.is_closing() do
    local ok, err = pcall(function()
      do_work()
      vim.async.sleep(10)
    end)

    if not ok then
      if err == "closed" then
        break  -- Exit the loop on cancellation
      else
        print("Error occurred:", err)
        -- Handle other errors and continue
      end
    end
  end

  cleanup()
  print("Shut down gracefully")
end)
]]

-- Works, fails at its third call, and notes what it does.
local function counted_work()
  local calls = 0
  return function()
    calls = calls + 1
    if calls == 3 then
      error("out of paper", 0)
    end
    note("work", calls)
  end
end

test("a loop that catches errors goes on after them, and ends when it is closed", function()
  local run = example.start(graceful, {
    do_work = counted_work(),
    cleanup = function()
      note "cleanup"
    end,
  })
  async.sleep(25)
  run.script:close()
  check.notes "work 1; work 2; Error occurred: out of paper; work 4; cleanup; Shut down gracefully"
  equal(run.script:status(), "completed")
  time_is(25)
end)

local pwait = [[
local task = vim.async.run(function()
  error("failed")
end)

local ok, result = task:pwait(1000)
if not ok then
  print("Task failed:", result)
end
]]

test("pwait answers an error in place of raising it", function()
  local run = example.run(pwait)
  check.notes "Task failed: example:2: failed"
  equal(example.outcomes(run), "failed")
  time_is(0)
end)

test("an error that pwait has answered is not delivered to the parent besides", function()
  example.run(pwait, nil, "vim.async.sleep(1) print 'goes on'")
  check.notes "Task failed: example:2: failed; goes on"
end)

test("a traceback goes through all the tasks involved", function()
  local function innermost()
    async.sleep(10)
  end
  local inner
  local function outermost()
    inner = async.run({ name = "inner" }, function()
      innermost()
    end)
    async.await(inner)
  end
  local outer = async.run({ name = "outer" }, function()
    outermost()
  end)
  local text = inner:traceback "where is it"
  local last = 0
  for _, word in ipairs { "where is it", "'inner'", "innermost", "'outer'", "outermost" } do
    local at = text:find(word, last + 1, true)
    check.truthy(at, string.format("%q, in this order, in %s", word, text))
    last = at
  end
  outer:wait()
end)

-- --- Cancellation --------------------------------------------------------------------------------

local cancelled_now = [[
local task = vim.async.run(function()
  -- Task suspends here
  vim.async.sleep(1000)
  -- Cancellation delivered here when close() is called below
  print("This won't print if closed during sleep")
end)

-- Calling close() resumes the task immediately with cancellation
task:close()  -- Task cancelled right now, sleep is interrupted
]]

test("close interrupts a sleep at once", function()
  local run = example.run(cancelled_now, nil, "keep(task:status())")
  equal(run.kept[1], "completed")
  equal(example.outcomes(run), "closed")
  check.notes ""
  time_is(0)
end)

local synchronous_start = [[
vim.async.run(function()
  local task = vim.async.run(function()
    -- Long synchronous computation runs first
    for i = 1, 10000000 do
      math.sqrt(i)
    end
    -- Cancellation cannot interrupt the loop

    -- Task suspends here
    -- Cancellation is delivered when task resumes from this sleep
    vim.async.sleep(10)
    print("This won't print")
  end)

  -- Parent calls close() immediately
  -- Child task is marked for cancellation
  task:close()

  -- Parent suspends, allowing child to run
  -- Child executes the loop, then suspends at sleep
  -- Cancellation is delivered when child would resume from sleep
  vim.async.sleep(1)
end)
]]

test("a child has run up to its first wait when close is called, and is closed there at once", function()
  local run = example.start(synchronous_start)
  equal(example.outcomes(run), "awaiting closed")
  run.script:wait()
  check.notes ""
  time_is(1)
  equal(example.outcomes(run), "done closed")
end)

test("a task that runs hears that it was closed at its next wait", function()
  local task
  task = async.run(function()
    async.checkpoint()
    task:close()
    note("runs on", async.is_closing())
    async.sleep(10)
    note "never"
  end)
  local ok, err = task:pwait()
  equal(ok, false)
  equal(err, "closed")
  check.notes "runs on true"
  time_is(0)
end)

local whole_tree = [[
local parent = vim.async.run(function()
  local child1 = vim.async.run(function()
    local grandchild = vim.async.run(function()
      while true do
        vim.async.sleep(10)
      end
    end)
    vim.async.await(grandchild)
  end)

  local child2 = vim.async.run(function()
    while true do
      vim.async.sleep(10)
    end
  end)

  -- Parent does some work
  vim.async.sleep(100)
end)

parent:close()  -- Cancels entire tree immediately
]]

test("close goes down the whole tree at once", function()
  local run = example.start(whole_tree, nil, "keep(parent:status())")
  equal(run.kept[1], "completed")
  equal(run.script:status(), "completed")
  equal(example.outcomes(run), "closed closed closed closed")
  time_is(0)
end)

test("a tree that is not closed waits for its endless children", function()
  local source, count = whole_tree:gsub("parent:close%(%)[^\n]*", "")
  equal(count, 1)
  local run = example.start(source)
  async.sleep(500)
  equal(example.outcomes(run), "awaiting awaiting awaiting awaiting")
  run.script:close()
  equal(example.outcomes(run), "closed closed closed closed")
end)

local is_closing = [[
vim.async.run(function()
  local resource = acquire_resource()

  while not vim.async.is_closing() do
    do_work(resource)
    vim.async.sleep(10)
  end

  resource:cleanup()
  print("Shut down gracefully")
end)
]]

local function resource_of(name)
  return {
    cleanup = function()
      note("clean", name)
    end,
  }
end

test("an unprotected wait ends a closed task before its loop can check", function()
  local run = example.start(is_closing, {
    acquire_resource = function()
      return resource_of "it"
    end,
    do_work = function()
      note "work"
    end,
  })
  async.sleep(15)
  run.script:close()
  check.notes "work; work"
  equal(example.outcomes(run), "closed")
  time_is(15)
end)

test("a task that was closed before its loop begins cleans up and ends", function()
  local run = example.start(is_closing, {
    acquire_resource = function()
      async.pawait(async.run(async.sleep, 50))
      return resource_of "it"
    end,
    do_work = function()
      note "work"
    end,
  })
  run.tasks[1]:close()
  check.notes "clean it; Shut down gracefully"
  time_is(0)
end)
