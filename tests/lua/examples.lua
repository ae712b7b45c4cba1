-- The examples of the document on structured concurrency, word for word and in its order: the
-- guarantees, tasks and how they execute.  The others are in examples_errors.lua,
-- examples_resources.lua and examples_patterns.lua.  Where the document is wrong, the test says
-- what really happens.

local check = require "check"
local example = require "example"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note
local time_is = example.time_is

-- --- Three core guarantees -----------------------------------------------------------------------

local parents_wait = [[
local parent = vim.async.run(function()
  local child1 = vim.async.run(function()
    vim.async.sleep(100)
  end)

  local child2 = vim.async.run(function()
    vim.async.sleep(50)
  end)

  print("done")  -- This runs immediately
end)

parent:wait()  -- But this waits ~100ms
]]

test("a parent's body runs on at once, and the parent is done when its children are", function()
  local run = example.start(parents_wait, nil, "keep(parent:status())")
  check.notes "done"
  equal(example.outcomes(run), "awaiting awaiting awaiting")
  time_is(0)
  run.script:wait()
  time_is(100)
  equal(run.kept[1], "completed")
  equal(example.outcomes(run), "done done done")
end)

test("the quicker child is done before its parent", function()
  local run = example.start(parents_wait)
  run.tasks[3]:wait()
  time_is(50)
  equal(example.outcomes(run), "awaiting awaiting done")
  run.script:wait()
end)

local errors_propagate = [[
local parent = vim.async.run(function()
  local child1 = vim.async.run(function()
    vim.async.sleep(10)
    error("child1 failed")  -- child1 errors and completes
  end)

  local child2 = vim.async.run(function()
    vim.async.sleep(1000)  -- Long running
  end)

  -- Parent continues running synchronously
  -- While parent runs, children are suspended until the sleep is finished
  local x = compute_something()

  -- Parent suspends here, giving children a chance to run
  -- When parent resumes, the error from child1 is delivered:
  vim.async.sleep(100)  -- Error surfaces when parent resumes here
  -- child2 is cancelled when parent receives the error
end)
]]

local function compute_something()
  note "computed"
  return 1
end

test("a child's error ends the parent's wait, closes the other child and fails the parent", function()
  local run, err = example.fails("child1 failed", errors_propagate, { compute_something = compute_something })
  time_is(10)
  check.notes "computed"
  equal(example.outcomes(run), "failed failed closed")
  equal(select(2, run.tasks[1]:pwait()), err, "the parent's error")
  equal(select(2, run.tasks[2]:pwait()), err, "the child's error")
end)

test("an error is kept once by each task that it passes", function()
  local run, err = example.fails("child1 failed", errors_propagate, { compute_something = compute_something })
  for i = 1, 2 do
    local errors = run.tasks[i]:errors()
    equal(#errors, 1, "the errors of task " .. i)
    equal(errors[1], err)
  end
end)

local cancellation_propagates = [[
local parent = vim.async.run(function()
  local child = vim.async.run(function()
    vim.async.sleep(1000)
    print("This won't run if parent is closed")
  end)

  vim.async.sleep(100)
  print("Parent completed normally")
end)

-- Calling close() from outside resumes parent with cancellation
parent:close()  -- Both parent and child cancelled immediately
]]

test("closing a parent from outside closes it and its child at once", function()
  local run = example.run(cancellation_propagates, nil, "keep(parent:status())")
  equal(run.kept[1], "completed", "the parent after close()")
  equal(example.outcomes(run), "closed closed")
  check.notes ""
  time_is(0)
end)

-- --- Tasks and scopes ----------------------------------------------------------------------------

local a_scope = [[
local task = vim.async.run(function()
  -- Any tasks created here become children of `task`
  local child = vim.async.run(worker_function)
end)
]]

test("a task created inside another is its child", function()
  local run = example.start(a_scope, {
    worker_function = function()
      async.sleep(30)
    end,
  })
  equal(example.outcomes(run), "awaiting awaiting")
  run.tasks[1]:wait()
  time_is(30)
  equal(example.outcomes(run), "done done")
end)

test("a child of any function is closed with the task that created it", function()
  local run = example.start(a_scope, {
    worker_function = function()
      async.await(function() end)
    end,
  })
  run.tasks[1]:close()
  equal(example.outcomes(run), "closed closed")
end)

local where_it_is_created = [[
-- Top-level task with no parent
local t1 = vim.async.run(function()
  vim.async.sleep(50)
end)

local main = vim.async.run(function()
  -- This task's parent is `main`
  local child = vim.async.run(function()
    vim.async.sleep(100)
  end)

  -- t1 has no parent, so we must explicitly await it
  vim.async.await(t1)
end)
]]

test("a task that awaits another does not become its parent", function()
  local run = example.start(where_it_is_created, nil, "keep(t1, main)")
  local t1, main = run.kept[1], run.kept[2]
  main:close()
  equal(t1:status(), "awaiting")
  t1:wait()
  time_is(50)
end)

test("a task is done when it has awaited another's, and its own child is done", function()
  local run = example.start(where_it_is_created, nil, "keep(t1, main)")
  local t1, main = run.kept[1], run.kept[2]
  t1:wait()
  time_is(50)
  equal(main:status(), "awaiting")
  main:wait()
  time_is(100)
  equal(example.outcomes(run), "done done done")
end)

test("tasks made at the top level are children of the script", function()
  local run = example.start(where_it_is_created)
  equal(run.script:status(), "awaiting")
  run.script:close()
  equal(example.outcomes(run), "closed closed closed")
  time_is(0)
end)

local detached = [[
local parent = vim.async.run(function()
  local background = vim.async.run(function()
    -- Long-running background work
  end):detach()

  -- Parent completes without waiting for background
end)
]]

test("detach answers the task, and the parent completes", function()
  local run = example.start(detached)
  equal(run.script:status(), "completed")
  equal(example.outcomes(run), "done done")
end)

test("a parent completes without waiting for a task that was detached", function()
  local source, count = detached:gsub("%-%- Long%-running background work", "long_running()")
  equal(count, 1)
  local run = example.run(source, {
    long_running = function()
      async.sleep(70)
    end,
  })
  time_is(0)
  equal(example.outcomes(run), "done awaiting")
  run.tasks[2]:wait()
  time_is(70)
end)

-- --- Stackful coroutines -------------------------------------------------------------------------

local coloring = [[
-- Regular Lua functions - no special marking
local function fetch_user(id)
  return do_fetch('/users/' .. id)
end

local function get_user_name(id)
  local user = fetch_user(id)
  return user.name
end

local function display_user(id)
  local name = get_user_name(id)
  print(name)
end

-- Only the top level needs to be async
vim.async.run(function()
  display_user(123)
  -- Suspension happens deep in do_fetch, but we don't
  -- need to mark intermediate functions as async
end)
]]

test("a wait deep in plain functions suspends the task", function()
  local run = example.start(coloring, {
    do_fetch = function(path)
      async.sleep(20)
      return { name = "the user of " .. path }
    end,
  })
  check.notes ""
  run.script:wait()
  check.notes "the user of /users/123"
  time_is(20)
end)

-- --- How tasks execute ---------------------------------------------------------------------------

local how_tasks_execute = [[
local task = vim.async.run(function()
  print("This prints immediately")
  vim.async.await(vim.schedule)
  print("This prints after a scheduler tick")
end)

print("This might print first or second")
]]

test("a task runs up to its first wait before its creator goes on", function()
  example.run(how_tasks_execute)
  check.notes "This prints immediately; This might print first or second; This prints after a scheduler tick"
end)

test("the status of a task is running, normal, awaiting or completed", function()
  local outer
  outer = async.run(function()
    async.checkpoint()
    note(outer:status())
    async.run(function()
      note(outer:status(), async.current():status())
    end)
    async.sleep(1)
  end)
  note(outer:status())
  outer:wait()
  note(outer:status())
  check.notes "awaiting; running; normal running; completed"
end)

test("a task's coroutine can be neither yielded nor resumed by a script", function()
  local co
  local task = async.run(function()
    co = coroutine.running()
    check.raises("async.checkpoint()", coroutine.yield)
    async.sleep(10)
    note "as ever"
  end)
  local ok, err = coroutine.resume(co)
  equal(ok, false)
  check.truthy(err:find("task", 1, true), "the error speaks of tasks")
  task:wait()
  time_is(10)
  check.notes "as ever"
end)
