-- The module `orrery.async_nvim`, which behaves as async.nvim does.

local check = require "check"
local orrery = require "orrery"
local async = require "orrery.async_nvim"
local test, equal, note, notes, raises = check.test, check.equal, check.note, check.notes, check.raises
local await, run, sleep = async.await, async.run, async.sleep
local schedule, new_timer = orrery.schedule, orrery.loop.new_timer

-- Handles that awaited functions have returned; each test must have closed all of its own.
local handles = {}

local function handle()
  local timer = new_timer()
  handles[#handles + 1] = timer
  return timer
end

after_each(function()
  local made = handles
  handles = {}
  for i, timer in ipairs(made) do
    check.truthy(timer:is_closing(), "handle " .. i .. " is closed: this")
  end
end)

-- Never ends by itself.
local function eternity()
  await(function() return handle() end)
end

-- The task must fail with this error, or with one that matches the pattern.
local function fails(task, expected)
  local ok, err = task:pwait(1000)
  if ok or err ~= expected and not (type(err) == "string" and err:find("^" .. expected .. "$")) then
    error(string.format("got %s and %s, expected the error %s", ok, tostring(err), expected), 2)
  end
  return err
end

-- A resource that is closed in a later turn.
local function slow_resource(name)
  return {
    close = function(_, callback)
      note("closing " .. name)
      schedule(function()
        note("closed " .. name)
        callback()
      end)
    end,
  }
end

-- --- Running and waiting -------------------------------------------------------------------------

test("a task starts at once, with its arguments, and returns its results", function()
  local task = run(function(a, b)
    note("started", a, b)
    sleep(10)
    return b, nil, a
  end, 1, 2)
  notes "started 1 2"
  local results = table.pack(task:wait())
  equal(results.n, 3)
  equal(results[1], 2)
  equal(results[3], 1)
  equal(check.elapsed(), 10)
end)

test("a task has the name that it was given, or that of the options", function()
  equal(run("first", function() end).name, "first")
  equal(run({ name = "second" }, function() end).name, "second")
  equal(run(function() end).name, nil)
end)

test("a callable table can be run and awaited", function()
  local callable = setmetatable({}, { __call = function(_, ...) return ... end })
  equal(run(callable, 5):wait(), 5)
  local giver = setmetatable({}, { __call = function(_, callback) callback(6) end })
  equal(run(function() return await(giver) end):wait(), 6)
end)

test("await passes the callback at its position among the arguments", function()
  run(function()
    local function give(...)
      local values = table.pack(...)
      for i = 1, values.n do
        if type(values[i]) == "function" then
          return values[i](i, values.n)
        end
      end
    end
    local function positions(...)
      local at, count = await(...)
      note(at .. " of " .. count)
    end
    positions(give)
    positions(1, give, "a")
    positions(2, give, "a")
    positions(3, give, "a")
    positions(2, give, nil, "b", nil)
    positions(5, give)
  end):wait()
  notes "1 of 1; 1 of 2; 2 of 2; 3 of 3; 2 of 4; 5 of 5"
end)

test("await returns all arguments of the callback, nils too", function()
  run(function()
    local values = table.pack(await(function(callback) callback(nil, false, nil) end))
    equal(values.n, 3)
    equal(values[2], false)
    equal(select("#", await(schedule)), 0)
  end):wait()
end)

test("only the first call of a callback counts", function()
  local calls = 0
  local function twice(callback)
    callback("first")
    schedule(function()
      calls = calls + 1
      callback("second")
    end)
  end
  equal(run(function() return await(twice) end):wait(), "first")
  orrery.async.sleep(1)
  equal(calls, 1)
end)

test("a late callback does not disturb the next wait", function()
  local late
  run(function()
    await(function(callback)
      late = callback
      schedule(callback, "first")
    end)
    schedule(function() late("late") end)
    note(await(function(callback) orrery.loop.set_timeout(10, function() callback("second") end) end))
  end):wait()
  notes "second"
  equal(check.elapsed(), 10)
end)

test("a callback that is called at once needs no stack", function()
  local function deep(n)
    if n == 0 then
      return "done"
    end
    await(function(callback) callback() end)
    return deep(n - 1)
  end
  equal(run(deep, 10000):wait(), "done")
end)

test("a task goes on inside the callback that it waits for", function()
  local wake
  run(function()
    await(function(callback) wake = callback end)
    note "task"
  end)
  note "before"
  wake()
  note "after"
  notes "before; task; after"
end)

test("wrap makes a function that awaits", function()
  local add = async.wrap(3, function(a, b, callback) callback(a + b) end)
  equal(run(function() return add(1, 2) end):wait(), 3)
end)

test("a task can be awaited by many, and after its end", function()
  local task = run(function() sleep(5) return "value" end)
  local first = run(function() return await(task) end)
  local second = run(function() return await(task) end)
  equal(first:wait() .. second:wait() .. task:wait(), "valuevaluevalue")
  equal(run(function() return await(task) end):wait(), "value")
end)

test("an error of an awaited function is raised in await", function()
  fails(run(function() await(function() error "ERROR" end) end), ".*async_nvim.lua:%d+: ERROR")
  local ok, err = run(function() return pcall(await, function() error("ERROR", 0) end) end):wait()
  equal(ok, false)
  equal(err, "ERROR")
end)

test("functions of orrery can wait inside a task, and suspend nothing else", function()
  local task = run(function()
    orrery.async.sleep(20)
    note "slept"
    return orrery.async.await(orrery.async.run(function() orrery.async.sleep(10) return "ours" end))
  end)
  equal(task:status(), "awaiting")
  run(function() sleep(10) note "other" end)
  equal(task:wait(), "ours")
  notes "other; slept"
  equal(check.elapsed(), 30)
end)

test("two thousand tasks can await each other", function()
  local function nest(n)
    if n > 0 then
      return 1 + await(run(nest, n - 1))
    end
    sleep(1)
    return 0
  end
  equal(run(nest, 2000):wait(), 2000)
end)

test("two thousand nested tasks can be closed", function()
  local ended = 0
  local function nest(n)
    local count <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
    if n > 0 then
      await(run(nest, n - 1))
    end
    sleep(1)
    return count
  end
  local top = run(nest, 2000)
  top:close()
  fails(top, "closed")
  equal(ended, 2001)
end)

-- --- wait, pwait, callbacks ----------------------------------------------------------------------

test("wait raises timeout, and the task goes on", function()
  local task = run(function() sleep(20) return "late" end)
  equal(raises("timeout", task.wait, task, 10), "timeout")
  equal(task:wait(100), "late")
  equal(check.elapsed(), 20)
end)

test("pwait returns the results, the error or timeout", function()
  local ok, err = run(eternity):pwait(5)
  equal(tostring(ok) .. err, "falsetimeout")
  handles[1]:close()
  ok, err = run(error, "text", 0):pwait()
  equal(tostring(ok) .. err, "falsetext")
  local results = table.pack(run(function() return 1, nil end):pwait())
  equal(results.n, 3)
  equal(results[1], true)
end)

test("wait with a callback calls it when the task is done, or at once", function()
  local task = run(function() sleep(5) return "a", "b" end)
  equal(select("#", task:wait(function(...) note("later", ...) end)), 0)
  task:on_complete(function(...) note("also", ...) end)
  note "waiting"
  task:wait()
  task:wait(function(...) note("at once", ...) end)
  run(error, "text", 0):wait(function(err) note(err) end)
  notes "waiting; later nil a b; also nil a b; at once nil a b; text"
end)

test("a callback that fails does not keep the others from their call", function()
  local future = async._future()
  future:wait(function() error("first", 0) end)
  future:wait(function() note "second" end)
  equal(raises("first", future.complete, future, nil, 1), "first")
  notes "second"
end)

test("wait inside a task suspends that task only", function()
  run(function()
    local other = run(function() sleep(5) note "other" end)
    other:wait()
    note "waited"
  end):wait()
  notes "other; waited"
end)

test("a wait that is interrupted leaves no callback behind", function()
  local task = run(eternity)
  local waiting = run(function() task:wait() end)
  raises("timeout", task.wait, task, 1)
  waiting:close()
  fails(waiting, "closed")
  equal(next(task._future._callbacks), nil)
  task:close()
end)

test("completed and status say how far a task is", function()
  local task, inner
  task = run(function()
    note(task and task:status() or "starting")
    inner = run(function()
      note(inner and "" or "inner starts")
      sleep(5)
      note(inner:status())
    end)
    sleep(10)
  end)
  note(task:status(), inner:status(), task:completed())
  task:wait()
  note(task:status(), inner:status(), task:completed())
  notes "starting; inner starts; awaiting awaiting false; running; completed completed true"
end)

test("a task that has started another and runs on below it is normal", function()
  local parent
  local go
  parent = run(function()
    await(function(callback) go = callback end)
    run(function() note(parent:status()) end)
    note(parent:status())
  end)
  go()
  notes "normal; running"
end)

test("a task that only waits for its children is awaiting", function()
  local task = run(function() run(sleep, 5) end)
  equal(task:status(), "awaiting")
  task:wait()
  equal(check.elapsed(), 5)
end)

-- --- Errors --------------------------------------------------------------------------------------

test("an error of a task has its position, and wait raises it as it is", function()
  local err = fails(run(function() error "broken" end), ".*async_nvim.lua:%d+: broken")
  equal(err:find("stack traceback", 1, true), nil)
end)

test("errors keep their values: tables, false, and nil as a text", function()
  local value = {}
  local _, err = run(error, value):pwait()
  equal(err, value)
  local ok
  ok, err = run(error, false):pwait()
  equal(ok, false)
  equal(err, false)
  fails(run(error), "error%(nil%)")
  fails(run(function() await(function() error() end) end), "error%(nil%)")
end)

test("a child that fails interrupts its parent with the prefix child error", function()
  local sibling
  local parent = run(function()
    run(function() sleep(5) error "CHILD" end)
    sibling = run(eternity)
    sleep(100)
    note "not reached"
  end)
  fails(parent, "child error: .*async_nvim.lua:%d+: CHILD")
  fails(sibling, "closed")
  equal(check.elapsed(), 5)
  notes ""
end)

test("a table that a child raises reaches the parent as it is", function()
  local value = { code = 42 }
  local _, err = run(function()
    run(function() sleep(1) error(value) end)
    sleep(100)
  end):pwait()
  equal(err, value)
end)

test("an awaited child raises its error without the prefix, at any depth", function()
  local function level(n)
    if n == 0 then
      error "DEEP"
    end
    await(run(level, n - 1))
  end
  fails(run(level, 5), ".*async_nvim.lua:%d+: DEEP")
  fails(run(function()
    local child = run(error, "EARLY", 0)
    await(child)
  end), "EARLY")
end)

test("a child that fails before its parent waits is heard of at the next wait", function()
  run(function()
    run(error, "EARLY", 0)
    note "runs on"
    note(pcall(sleep, 10))
    note(pcall(sleep, 10))
  end):wait()
  notes "runs on; false child error: EARLY; true"
end)

test("a failure that a task has waited for is not raised again", function()
  run(function()
    local child = run(error, "EARLY", 0)
    note(child:pwait())
    note(pcall(sleep, 1))
    local other = run(error, "OTHER", 0)
    local stranger = run({ detached = true }, function() note(pcall(await, other)) end)
    note(pcall(sleep, 1))
    stranger:wait()
  end):wait()
  notes "false EARLY; true; false OTHER; false child error: OTHER"
end)

test("each failure of a child is raised once, in order", function()
  run(function()
    run(error, "ONE", 0)
    run(error, "TWO", 0)
    run(function() sleep(5) error("THREE", 0) end)
    for _ = 1, 4 do
      note(pcall(sleep, 10))
    end
  end):wait()
  notes "false child error: ONE; false child error: TWO; false child error: THREE; true"
end)

test("a child that fails after its parent's body fails the parent, which closes the others", function()
  local sibling, completions = nil, 0
  local parent = run(function()
    sibling = run(function()
      await(function() return slow_resource "sibling" end)
    end)
    run(function() sleep(5) error("CHILD", 0) end)
  end)
  parent:on_complete(function(err)
    completions = completions + 1
    note(err)
  end)
  fails(parent, "child error: CHILD")
  fails(sibling, "closed")
  equal(completions, 1)
  notes "closing sibling; closed sibling; child error: CHILD"
end)

test("a parent's own error comes before those of its children, and closes them", function()
  local child
  local parent = run(function()
    child = run(function() sleep(5) error "CHILD" end)
    run(error, "EARLY")
    error("PARENT", 0)
  end)
  fails(parent, "PARENT")
  fails(child, "closed")
end)

test("a parent completes after its children, and before its waiters go on", function()
  local children = {}
  local parent = run(function()
    children[1], children[2] = run(sleep, 10), run(sleep, 5)
    return "value"
  end)
  equal(parent:wait(), "value")
  equal(check.elapsed(), 10)
  equal(children[1]:completed() and children[2]:completed(), true)
end)

test("raise_on_error does nothing to a task that succeeds or is closed", function()
  local closed = run(eternity):raise_on_error()
  closed:close()
  fails(closed, "closed")
  local fine = run(sleep, 1)
  equal(fine:raise_on_error(), fine)
  fine:wait()
end)

-- --- Closing -------------------------------------------------------------------------------------

test("close ends a task at once, if its resource closes at once", function()
  local task = run(sleep, 100)
  task:close()
  equal(task:status(), "completed")
  fails(task, "closed")
  equal(check.elapsed(), 0)
end)

test("close reaches every wait", function()
  local semaphore, queue, full, event = async.semaphore(1), async._queue(), async._queue(1), async._event()
  run(semaphore.acquire, semaphore)
  full:put_nowait(1)
  local forever = run(eternity)
  local waits = {
    sleep = function() sleep(1e9) end,
    callback = eternity,
    ["wrapped callback"] = async.wrap(1, function() return handle() end),
    task = function() await(forever) end,
    child = function() await(run(eternity)) end,
    children = function() run(eternity) end,
    timeout = function() async.timeout(1e9, forever) end,
    iter = function() for _ in async.iter { forever } do end end,
    await_all = function() async.await_all { forever } end,
    await_any = function() async.await_any { forever } end,
    acquire = function() semaphore:acquire() end,
    with = function() semaphore:with(print) end,
    get = function() queue:get() end,
    put = function() full:put(2) end,
    event = function() event:wait() end,
    wait = function() forever:wait() end,
    checkpoint = function() async.checkpoint() end,
    pawait = function() async.pawait(forever) end,
    pcall = function() async.pcall(eternity) end,
    ["a function of orrery"] = function() orrery.async.sleep(1e9) end,
  }
  for name, wait in pairs(waits) do
    local after = false
    local task = run(function()
      wait()
      after = true
    end)
    equal(task:status(), "awaiting", name)
    task:close()
    local ok, err = task:pwait(1000)
    equal(tostring(ok) .. " " .. tostring(err), "false closed", name)
    equal(after, name == "children", name)
  end
  equal(next(forever._future._callbacks), nil)
  forever:close()
  run(semaphore.release, semaphore)
  run(function()
    semaphore:acquire() -- no permit was lost
    equal(full:get(), 1)
    equal(full:size(), 0)
    full:put(3)
  end):wait(10)
end)

test("a closed task hears of it at each further wait, but ends as closed only", function()
  local task = run(function()
    for i = 1, 3 do
      note(i, async.is_closing(), pcall(sleep, 10))
    end
    note(pcall(await, function() note "never called" end))
    return "value"
  end)
  task:close()
  fails(task, "closed")
  notes "1 false false closed; 2 true false closed; 3 true false closed; false closed"
end)

test("a task's own error comes before its closing", function()
  local task = run(function()
    pcall(sleep, 10)
    error("OWN", 0)
  end)
  task:close()
  fails(task, "OWN")
end)

test("a running task is closed at its next wait", function()
  local task
  task = run(function()
    await(schedule)
    task:close()
    note(task:status())
    sleep(1)
    note "not reached"
  end)
  fails(task, "closed")
  notes "running"
end)

test("children end before the parent that is closed", function()
  local parent = run(function()
    run(function()
      local _ <close> = setmetatable({}, { __close = check.noting "child" })
      sleep(100)
    end)
    local _ <close> = setmetatable({}, { __close = check.noting "parent" })
    sleep(100)
  end)
  parent:close()
  fails(parent, "closed")
  notes "child; parent"
end)

test("a child that is closed does not fail its parent", function()
  equal(run(function()
    run(eternity):close()
    sleep(1)
    return "fine"
  end):wait(), "fine")
end)

test("close takes a callback, which is called when the task is done", function()
  local task = run(function() await(function() return slow_resource "it" end) end)
  task:close(function(...) note("done", select("#", ...)) end)
  note "asked"
  task:pwait()
  task:close(function() note "again" end)
  notes "closing it; asked; closed it; done 0; again"
end)

test("a resource is closed when its wait ends, and the task goes on after that", function()
  run(function()
    await(function(callback)
      schedule(callback)
      return slow_resource "it"
    end)
    note "goes on"
  end):wait()
  notes "closing it; closed it; goes on"
end)

test("a resource is closed even if its callback was called before it was returned", function()
  run(function()
    await(function(callback)
      callback()
      return slow_resource "it"
    end)
    note "goes on"
  end):wait()
  notes "closing it; closed it; goes on"
end)

test("a resource that is closing already is not closed again", function()
  local closes = 0
  local resource = {
    is_closing = function() return true end,
    close = function() closes = closes + 1 end,
  }
  equal(run(function()
    return await(function(callback)
      schedule(callback, "value")
      return resource
    end)
  end):wait(), "value")
  equal(closes, 0)
  equal(run(function()
    await(function(callback)
      local timer = handle()
      timer:close(callback)
      return timer
    end)
    return "FINISH"
  end):wait(), "FINISH")
end)

test("an error of close is the task's error", function()
  local function broken(err)
    return function(callback)
      if callback then
        schedule(callback, "value")
      end
      return { close = function() error(err, 0) end }
    end
  end
  fails(run(function() await(broken "CLOSE") end), "CLOSE")
  local task = run(function() await(function() return broken "CLOSE"() end) end)
  task:close()
  fails(task, "CLOSE")
  fails(run(function() await(broken(nil)) end), "error%(nil%)")
end)

test("a resource that calls back twice, or late, disturbs no later wait", function()
  local over
  run(function()
    pcall(await, function(callback)
      schedule(callback)
      return {
        close = function(_, callback)
          over = callback
          error("CLOSE", 0)
        end,
      }
    end)
    schedule(over)
    sleep(10)
    await(function(callback)
      schedule(callback)
      return {
        close = function(_, callback)
          over = callback
          callback()
        end,
      }
    end)
    schedule(over)
    sleep(10)
  end):wait()
  equal(check.elapsed(), 20)
end)

test("a task of orrery can be a resource", function()
  local ours
  local task = run(function()
    await(function()
      ours = orrery.async.run({ detached = true }, orrery.async.sleep, 1e9)
      return ours
    end)
  end)
  task:close()
  fails(task, "closed")
  equal(ours:status(), "completed")
end)

test("detach makes a task independent of its parent", function()
  local child, result
  local parent = run(function()
    child = run(function() sleep(20) error("DETACHED", 0) end)
    result = child:detach()
    run({ detached = true }, sleep, 5)
    sleep(5)
    return "parent"
  end)
  equal(result, child)
  equal(parent:wait(), "parent")
  equal(check.elapsed(), 5)
  fails(child, "DETACHED")
  local other
  parent = run(function()
    other = run(sleep, 30):detach()
    sleep(100)
  end)
  parent:close()
  other:wait()
end)

test("a parent that waits for a last child is done when that is detached", function()
  local child
  local parent = run(function() child = run(sleep, 100) end)
  child:detach()
  equal(parent:completed(), true)
  child:close()
end)

test("a task that was made outside is not closed with its waiter", function()
  local outside = run(sleep, 10)
  local waiter = run(function() await(outside) end)
  waiter:close()
  fails(waiter, "closed")
  outside:wait()
  equal(check.elapsed(), 10)
end)

test("tasks made in callbacks of the loop have no parent", function()
  local inner
  local parent = run(function()
    await(function(callback)
      schedule(function()
        inner = run(sleep, 50)
        callback()
      end)
    end)
  end)
  parent:wait()
  equal(inner:completed(), false)
  inner:wait()
end)

test("a task that awaits a closed task fails with closed", function()
  local first = run(eternity)
  first:close()
  fails(run(function() await(first) end), "closed")
end)

-- --- complete ------------------------------------------------------------------------------------

test("complete gives a task its results and ends it", function()
  local child
  local task = run(function()
    child = run(eternity)
    note(pcall(await, child))
    note(async.is_closing())
    error "is not heard"
  end)
  task:complete("DONE", 123)
  local first, second = task:wait()
  equal(first .. second, "DONE123")
  fails(child, "closed")
  notes "false closed; true"
end)

test("a child can complete its parent, and its siblings are closed", function()
  local parent, slow
  parent = run(function()
    run(function() sleep(10) parent:complete "quick" end)
    slow = run(function() sleep(50) parent:complete "slow" end)
    eternity()
  end)
  equal(parent:wait(), "quick")
  fails(slow, "closed")
  equal(check.elapsed(), 10)
end)

test("a task that waits for its children can be completed", function()
  local child
  local task = run(function() child = run(eternity) return "body" end)
  task:complete "outside"
  equal(task:wait(), "outside")
  fails(child, "closed")
end)

test("a task is completed once", function()
  local text = "Task is already completing or completed"
  local results, parent = {}, nil
  parent = run(function()
    for i = 1, 2 do
      run(function()
        sleep(10)
        results[i] = table.pack(pcall(parent.complete, parent, i))
      end)
    end
    eternity()
  end)
  equal(parent:wait(), 1)
  equal(results[1][1], true)
  equal(results[2][1], false)
  equal(results[2][2]:find(text, 1, true) ~= nil, true)
  raises(text, parent.complete, parent)
  local closed = run(eternity)
  closed:close()
  raises(text, closed.complete, closed)
  fails(closed, "closed")
  local err = raises(text, function() closed:complete() end)
  equal(err:match "^.*async_nvim.lua:%d+: (.*)$", text)
end)

test("close does not undo complete", function()
  local task = run(function() await(function() return slow_resource "it" end) end)
  task:complete "value"
  task:close()
  equal(task:wait(), "value")
end)

-- --- pcall and pawait ----------------------------------------------------------------------------

test("pcall catches errors of the function, and passes arguments and results", function()
  run(function()
    note(async.pcall(error, "TEXT", 0))
    note(async.pcall(function(...) sleep(1) return ... end, 1, nil, 3))
  end):wait()
  note(async.pcall(error, "OUTSIDE", 0))
  notes "false TEXT; true 1 nil 3; false OUTSIDE"
end)

test("pcall does not catch the failure of a child", function()
  local parent = run(function()
    run(function() sleep(5) error("CHILD", 0) end)
    note(async.pcall(error, "OWN", 0))
    async.pcall(sleep, 100)
    note "not reached"
  end)
  fails(parent, "child error: CHILD")
  notes "false OWN"
  run(function()
    run(error, "CHILD", 0)
    note(pcall(async.pcall, sleep, 1))
  end):wait()
  notes "false OWN; false child error: CHILD"
end)

test("pcall does not catch closed, unless it is another task's", function()
  local task = run(function()
    async.pcall(sleep, 100)
    note "not reached"
  end)
  task:close()
  fails(task, "closed")
  run(function() note(async.pcall(await, task)) end):wait()
  notes "false closed"
end)

test("pawait returns the outcome of what it awaits, but raises what concerns its own task", function()
  run(function()
    note(async.pawait(run(error, "TEXT", 0)))
    note(async.pawait(run(function() sleep(1) return 1, 2 end)))
    note(async.pawait(2, function(value, callback) callback(value, "b") end, "a"))
    note(async.pawait(function() error("START", 0) end))
  end):wait()
  local parent = run(function()
    run(function() sleep(1) error("CHILD", 0) end)
    async.pawait(function() end)
  end)
  fails(parent, "child error: CHILD")
  notes "false TEXT; true 1 2; true a b; false START"
end)

-- --- Time ----------------------------------------------------------------------------------------

test("timeout returns the results of a task that is in time, or raises its error", function()
  run(function()
    note(async.timeout(100, run(function() sleep(5) return "a", "b" end)))
    note(pcall(async.timeout, 100, run(function() sleep(5) error("TEXT", 0) end)))
    note(async.timeout(100, run(function() return "done" end)))
  end):wait()
  notes "a b; false TEXT; done"
  equal(check.elapsed(), 10)
end)

test("timeout closes a task that is late, waits for its cleanup and raises timeout", function()
  local task = run(function() await(function() return slow_resource "it" end) end)
  fails(run(async.timeout, 10, task), "timeout")
  fails(task, "closed")
  notes "closing it; closed it"
  equal(check.elapsed(), 10)
  run(function() note(pcall(async.timeout, 10, run(eternity))) sleep(1) note "and on" end):wait()
  notes "closing it; closed it; false timeout; and on"
end)

test("checkpoint lets scheduled functions run", function()
  run(function()
    schedule(note, "scheduled")
    async.checkpoint()
    note "after"
  end):wait()
  notes "scheduled; after"
end)

-- --- Many tasks ----------------------------------------------------------------------------------

local function finish_after(ms, ...)
  return run(function(...) sleep(ms) return ... end, ...)
end

test("iter gives index and results in the order in which tasks finish", function()
  local tasks = { finish_after(20, "a", 1), finish_after(10, "b"), run(function() return "c" end) }
  run(function()
    for i, value, more in async.iter(tasks) do
      note(i, value, more)
    end
    equal(async.iter({})(), nil)
  end):wait()
  notes "3 c nil; 2 b nil; 1 a 1"
end)

test("iter raises the error of a task with its index", function()
  local tasks = {}
  for i = 1, 4 do
    tasks[i] = run(function()
      await(schedule)
      if i == 3 then
        error "BAD"
      end
      return i
    end)
  end
  fails(run(function()
    for i in async.iter(tasks) do
      note(i)
    end
  end), "iter error%[index:3%]: .*async_nvim.lua:%d+: BAD")
  notes "1; 2"
  orrery.async.sleep(1)
end)

test("iter over children raises the failure of a child as such", function()
  local tasks = {}
  fails(run(function()
    for i = 1, 4 do
      tasks[i] = run(function()
        await(schedule)
        if i == 2 then
          error("BAD", 0)
        end
        return i
      end)
    end
    for i in async.iter(tasks) do
      note(i)
    end
  end), "child error: BAD")
  fails(tasks[3], "closed")
  fails(tasks[4], "closed")
  notes "1"
end)

test("a loop that is left early forgets the tasks", function()
  local quick, slow = finish_after(1), run(eternity)
  run(function()
    for _ in async.iter { slow, quick } do
      break
    end
    equal(next(slow._future._callbacks), nil)
    local iterator = async.iter { slow }
    check.truthy(iterator and next(slow._future._callbacks), "a callback waits: this")
    iterator = nil -- luacheck: ignore iterator
    collectgarbage()
    collectgarbage()
    equal(next(slow._future._callbacks), nil)
  end):wait()
  slow:close()
end)

test("await_all returns the packed results by index, or raises", function()
  run(function()
    local results = async.await_all { finish_after(5, 1, nil), finish_after(1, "b") }
    equal(results[1][1], 1)
    equal(results[1].n, 2)
    equal(results[2][1], "b")
    equal(next(async.await_all {}), nil)
  end):wait()
  local quick = finish_after(0)
  fails(run(async.await_all, { quick, run(error, "BAD", 0) }), "iter error%[index:2%]: BAD")
  quick:wait()
  local closed = run(eternity)
  closed:close()
  fails(run(async.await_all, { quick, closed }), "iter error%[index:2%]: closed")
end)

test("await_any returns index and results of the first, or raises", function()
  local slow = finish_after(20, "slow")
  run(function()
    note(async.await_any { slow, finish_after(1, "quick", 2) })
    note(async.await_any {})
  end):wait()
  notes "2 quick 2; "
  fails(run(async.await_any, { slow, run(error, "BAD", 0) }), "iter error%[index:2%]: BAD")
  slow:wait()
end)

-- --- Primitives ----------------------------------------------------------------------------------

test("a released permit starts the next task at once", function()
  run(function()
    local semaphore, tasks = async.semaphore(3), {}
    for i = 1, 5 do
      tasks[i] = run(function()
        semaphore:with(function()
          note("start" .. i)
          await(schedule)
          note("end" .. i)
        end)
      end)
    end
    async.await_all(tasks)
  end):wait()
  notes "start1; start2; start3; end1; start4; end2; start5; end3; end4; end5"
end)

test("two tasks take turns with one permit", function()
  local hits, word = 0, {}
  local function player(name, semaphore)
    while true do
      semaphore:acquire()
      if hits == 6 then
        return semaphore:release()
      end
      hits = hits + 1
      word[#word + 1] = name
      sleep(2)
      semaphore:release()
    end
  end
  run(function()
    local semaphore = async.semaphore()
    run(player, "ping", semaphore)
    run(player, "pong", semaphore)
  end):wait()
  equal(table.concat(word, " "), "ping pong ping pong ping pong")
end)

test("with returns results, and releases however it ends", function()
  local semaphore = async.semaphore(1)
  run(function()
    note(semaphore:with(function() return 1, nil, 2 end))
    note(pcall(semaphore.with, semaphore, function() error("TEXT", 0) end))
    local task = run(function() semaphore:with(eternity) end)
    task:close()
    async.pawait(task)
    semaphore:acquire()
    note "free"
  end):wait()
  notes "1 nil 2; false TEXT; free"
end)

test("a task that is closed while it waits for a permit does not take it", function()
  local semaphore = async.semaphore(1)
  run(function()
    semaphore:acquire()
    local first = run(function() semaphore:acquire() note "first" end)
    run(function() semaphore:acquire() note "second" end)
    first:close()
    semaphore:release()
    note "released"
  end):wait()
  notes "second; released"
end)

test("set wakes all who wait, at once and in order; the event stays set", function()
  local event = async._event()
  for i = 1, 3 do
    run(function() event:wait() note(i) end)
  end
  event:set()
  note "set"
  run(function() event:wait() note "late" end)
  event:clear()
  local last = run(function() event:wait() note "last" end)
  event:set()
  last:wait()
  notes "1; 2; 3; set; late; last"
end)

test("set with a number wakes that many, and stays set only if nobody is left", function()
  local event = async._event()
  for i = 1, 3 do
    run(function() event:wait() note(i) end)
  end
  event:set(2)
  local again = run(function() event:wait() note "again" end)
  equal(again:status(), "awaiting")
  event:set(5)
  notes "1; 2; 3; again"
  run(function() event:wait() note "set" end)
  notes "1; 2; 3; again; set"
end)

test("a queue passes values in order, also nil", function()
  local queue = async._queue()
  local consumer = run(function()
    while true do
      local item = queue:get()
      if not item then
        break
      end
      note(item)
    end
  end)
  run(function()
    queue:put(1)
    queue:put(2)
    queue:put(nil)
  end)
  consumer:wait(10)
  notes "1; 2"
  equal(queue:size(), 0)
  equal(queue:max_size(), nil)
end)

test("a bounded queue lets its producer wait", function()
  local queue = async._queue(2)
  equal(queue:max_size(), 2)
  run(function()
    for i = 1, 4 do
      queue:put(i)
      note("put " .. i)
    end
  end)
  run(function()
    for _ = 1, 4 do
      note("got " .. queue:get())
    end
  end):wait(10)
  notes "put 1; put 2; put 3; got 1; put 4; got 2; got 3; got 4"
end)

test("put_nowait and get_nowait raise where put and get would wait", function()
  local queue = async._queue(1)
  queue:put_nowait "a"
  raises("Queue is full", queue.put_nowait, queue, "b")
  equal(queue:get_nowait(), "a")
  raises("Queue is empty", queue.get_nowait, queue)
end)

test("a closed consumer takes no item", function()
  local queue = async._queue()
  local first = run(queue.get, queue)
  local second = run(queue.get, queue)
  first:close()
  queue:put_nowait "item"
  equal(second:wait(10), "item")
end)

test("a future has a result once", function()
  local future = async._future()
  raises("Future has not completed", future.result, future)
  future:wait(function(...) note("called", ...) end)
  equal(future:completed(), false)
  future:complete(nil, "value", nil)
  equal(future:completed(), true)
  equal(select("#", future:result()), 3)
  note(future:result())
  future:wait(function(...) note("at once", ...) end)
  raises("Future is already completed", future.complete, future, nil, "other")
  local failed = async._future()
  failed:complete "TEXT"
  note(failed:result())
  local odd = async._future()
  odd:complete(false)
  note(odd:completed(), odd:result())
  notes "called nil value nil; true value nil; at once nil value nil; false TEXT; true false false"
end)

test("a future without values can be completed", function()
  local future = async._future()
  future:complete()
  equal(future:completed(), true)
  equal(future:result(), true)
end)

-- --- Misuse --------------------------------------------------------------------------------------

test("waiting outside of a task is refused", function()
  local task, text = run(function() end), "Not in async context"
  for name, fn in pairs {
    await = function() await(schedule) end,
    sleep = function() sleep(1) end,
    timeout = function() async.timeout(1, task) end,
    iter = function() async.iter { task } end,
    await_all = function() async.await_all { task } end,
    await_any = function() async.await_any { task } end,
    pawait = function() async.pawait(task) end,
    checkpoint = async.checkpoint,
    queue = function() async._queue():get() end,
    event = function() async._event():wait() end,
  } do
    equal(select(2, pcall(fn)), text, name)
  end
  equal(async.is_closing(), false)
end)

test("a coroutine inside a task is not the task", function()
  fails(run(function()
    local ok, err = coroutine.resume(coroutine.create(sleep), 1)
    error(ok or err, 0)
  end), "Not in async context")
end)

test("arguments of the wrong kind are refused, and the caller is named", function()
  local function refused(text, fn, ...)
    equal(raises(text, function(...) fn(...) end, ...):match "^.*async_nvim.lua:%d+: (.*)$", text)
  end
  local task = run(function() end)
  refused("func: expected callable, got nil", run)
  refused("func: expected callable, got number", run, "name", 5)
  refused("func: expected callable, got nil", run, {})
  refused("opts.name: expected string, got number", run, { name = 5 }, print)
  refused("argc: expected number, got function", async.wrap, print)
  refused("func: expected callable, got nil", async.wrap, 1)
  refused("duration: expected number, got nil", sleep)
  refused("duration: expected number, got string", async.timeout, "x", task)
  refused("task: expected Task, got function", async.timeout, 1, print)
  refused("tasks: expected table, got nil", async.iter)
  refused("tasks[2]: expected Task, got number", async.await_all, { task, 5 })
  refused("permits: expected number, got string", async.semaphore, "x")
  refused("max_size: expected number, got string", async._queue, "x")
  refused("callback: expected callable, got number", task.close, task, 5)
  refused("callback_or_timeout: expected number, got string", task.wait, task, "x")
  refused("timeout: expected number, got string", task.pwait, task, "x")
  refused("fn: expected callable, got nil", async.semaphore().with, async.semaphore())
  for _, permits in ipairs { 0, -1, 1.5, math.huge } do
    refused("permits: expected positive integer, got " .. permits, async.semaphore, permits)
  end
end)

test("await says what it expects", function()
  local text = "Invalid arguments, expected Task or (argc, func) got: "
  run(function()
    raises(text .. "nil", await)
    raises(text .. "word", await, "word")
    raises(text .. "1", await, 1)
    raises(text .. "0", await, 0, print)
  end):wait()
end)

test("a task cannot await itself", function()
  local task
  task = run(function()
    await(schedule)
    await(task)
  end)
  fails(task, ".*a task cannot await itself")
end)

test("coroutine.yield in a task is an error of the task", function()
  local task = run(function()
    local _ <close> = setmetatable({}, { __close = check.noting "closed" })
    coroutine.yield "value"
  end)
  fails(task, "Unexpected coroutine.yield%(%)")
  notes "closed"
end)

test("coroutine.resume of a task is an error of both", function()
  for _, wait in ipairs { eternity, function() await(run(eternity)) end } do
    local co
    local task = run(function()
      co = coroutine.running()
      wait()
    end)
    local ok, err = coroutine.resume(co)
    equal(ok, false)
    equal(err, "Unexpected coroutine.resume()")
    fails(task, "Unexpected coroutine.resume%(%)")
  end
end)

-- --- Texts ---------------------------------------------------------------------------------------

-- Lines of this file, and addresses, as letters.
local function plain(text)
  return (text:gsub("[^%s<@]*async_nvim%.lua:%d+", "F:L"):gsub("0x%x+", "X"):gsub("\t", ""))
end

test("the tree shows name, place and state of each task", function()
  local inside
  collectgarbage() -- tasks that nobody can continue
  local parent = run("parent", function()
    run("first", eternity)
    run("second", function()
      run("third", eternity)
      run(eternity)
      inside = async._inspect_tree()
    end)
    run("last", eternity)
  end)
  equal(plain(inside), [=[
parent@F:L [normal]
├─ first@F:L [awaiting]
└─ second@F:L [running]
   ├─ third@F:L [awaiting]
   └─ @F:L [awaiting]]=])
  equal(plain(async._inspect_tree()), [=[
parent@F:L [awaiting]
├─ first@F:L [awaiting]
├─ second@F:L [awaiting]
│  ├─ third@F:L [awaiting]
│  └─ @F:L [awaiting]
└─ last@F:L [awaiting]]=])
  parent:close()
  fails(parent, "closed")
  equal(async.inspect_tree(), "")
end)

test("a traceback shows the stacks of the tasks that await each other, the innermost first", function()
  local function named()
    await(run(function() error "HERE" end))
    note "never"
  end
  local task = run(function()
    await(run(function()
      named()
      note "never"
    end))
    note "never"
  end)
  local err = fails(task, ".*HERE")
  equal(plain(task:traceback(err)), [[
F:L: HERE
stack traceback:
[thread: X] [C]: in function 'error'
[thread: X] F:L: in function <F:L>
[thread: X] F:L: in function 'named'
[thread: X] F:L: in function <F:L>
[thread: X] F:L: in function <F:L>]])
end)

test("the traceback of a waiting task shows where it waits, and for whom", function()
  local inner = run(function() eternity() note "never" end)
  local outer = run(function() await(inner) note "never" end)
  equal(plain(outer:traceback()), [[
stack traceback:
[thread: X] F:L: in function 'eternity'
[thread: X] F:L: in function <F:L>
[thread: X] F:L: in function <F:L>]])
  inner:close()
  fails(outer, "closed")
end)

test("a traceback leaves out tasks whose error was caught", function()
  local task = run(function()
    pcall(await, run(error, "CHILD", 0))
    error("OWN", 0)
  end)
  local err = fails(task, "OWN")
  equal(plain(task:traceback(err)), "OWN\nstack traceback:\n[thread: X] [C]: in function 'error'\n"
    .. "[thread: X] F:L: in function <F:L>")
  local value = {}
  equal(task:traceback(value), value)
end)

-- --- Surroundings --------------------------------------------------------------------------------

test("init replaces what the module waits and measures time with", function()
  local clock = {
    closed = 0,
    start = function(self, ms, _, callback) self.ms = ms schedule(callback) end,
    close = function(self, callback) self.closed = self.closed + 1 if callback then callback() end end,
  }
  async.init {
    new_timer = function() return clock end,
    wait = function(ms, is_done)
      note("waits", ms)
      orrery.async.sleep(5)
      return is_done()
    end,
    schedule = function(callback) note "schedules" schedule(callback) end,
  }
  local ok, err = pcall(function()
    run(function() sleep(1e9) async.checkpoint() end):wait(100)
    equal(clock.ms, 1e9)
    equal(clock.closed, 1)
  end)
  async.init { new_timer = new_timer, schedule = schedule, wait = function(ms, is_done)
    return orrery.async.move_on_after(ms, function()
      while not is_done() do
        orrery.async.sleep(1)
      end
      return true
    end) or false
  end }
  equal(ok, true, err)
  equal(run(function() sleep(10) return "slept" end):wait(100), "slept")
  notes "waits 100; schedules"
  raises("opts.wait: expected callable, got number", function() async.init { wait = 5 } end)
end)
