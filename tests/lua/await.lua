-- Awaiting tasks, futures, callbacks and lists of tasks, and blocks with a timeout.

local check = require "check"
local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop
local test, equal, note, raises = check.test, check.equal, check.note, check.raises

local function later(ms, fn, ...)
  local args = table.pack(...)
  return loop.set_timeout(ms, function()
    fn(table.unpack(args, 1, args.n))
  end)
end

-- --- Callbacks -----------------------------------------------------------------------------------

test("a callback that fires at once gives its arguments, nils included", function()
  local values = table.pack(async.await(function(callback)
    callback(nil, 2, nil)
  end))
  equal(values.n, 3)
  equal(values[2], 2)
end)

test("a callback that fires at once with one value, or none, gives just that", function()
  equal(select("#", async.await(function(callback) callback() end)), 0)
  equal(select("#", async.await(function(callback) callback(nil) end)), 1)
  equal(async.await(function(callback) callback(7) end), 7)
end)

test("a callback that fires late gives its arguments, nils included", function()
  local values = table.pack(async.await(function(callback)
    later(5, callback, nil, nil)
  end))
  equal(values.n, 2)
  equal(check.elapsed(), 5)
end)

test("a callback can bring very many values, early and late", function()
  local many = {}
  for i = 1, 5000 do
    many[i] = i
  end
  local function bring(callback)
    callback(table.unpack(many))
  end
  equal(select("#", async.await(bring)), 5000)
  equal(select("#", async.await(function(callback) later(1, bring, callback) end)), 5000)
  equal(select(5000, async.await(function(callback) later(1, bring, callback) end)), 5000)
end)

test("of a callback that fires twice, the first counts", function()
  equal(async.await(function(callback) callback(1) callback(2) end), 1)
  equal(async.await(function(callback)
    later(1, function() callback(1) callback(2) end)
  end), 1)
end)

test("a callback that fires again reaches no later wait", function()
  local saved
  async.await(function(callback) saved = callback callback() end)
  later(1, function() saved "wrong" end)
  equal(async.await(function(callback) later(3, callback, "right") end), "right")
  later(1, function() saved "wrong" end)
  async.sleep(2)
end)

test("a callback can be fired from a plain coroutine and from another task", function()
  equal(async.await(function(callback)
    coroutine.wrap(callback)("co")
  end), "co")
  local saved
  async.run(function()
    async.sleep(4)
    coroutine.wrap(saved)("other task")
  end)
  equal(async.await(function(callback) saved = callback end), "other task")
end)

test("a function that waits itself before its callback fires is awaited all the same", function()
  equal(async.await(function(callback)
    async.sleep(5)
    callback "slept"
  end), "slept")
  equal(async.await(function(callback)
    later(2, callback, "while it slept")
    async.sleep(5)
  end), "while it slept")
  equal(check.elapsed(), 10)
end)

test("a callback that fires while its function awaits another callback is not lost", function()
  local value = async.with_timeout(100, function()
    return async.await(function(callback)
      later(5, callback, "outer")
      async.await(function(inner) later(10, inner) end)
    end)
  end)
  equal(value, "outer")
  equal(check.elapsed(), 10)
end)

test("a callback that fires at once inside another's function is not lost either", function()
  local value = async.with_timeout(100, function()
    return async.await(function(callback)
      async.await(function(inner)
        callback "outer"
        inner()
      end)
    end)
  end)
  equal(value, "outer")
end)

test("a stale callback of a nested wait reaches no later wait", function()
  local stale
  async.await(function(callback)
    async.await(function(inner) inner() end)
    async.await(function(inner) stale = inner inner() end)
    later(1, callback)
  end)
  pcall(async.await, function() error "no wait" end)
  for i = 1, 6 do
    local got = async.await(function(callback)
      later(1, stale, "stale")
      later(2, callback, "right")
    end)
    equal(got, "right", "wait " .. i)
  end
end)

test("the error of an awaited function is raised as it is", function()
  local object = {}
  equal(select(2, pcall(async.await, function() error(object) end)), object)
end)

test("a position says where the callback goes, and arguments come before it", function()
  equal(async.await(3, function(a, b, callback) callback(a, b) end, 1, 2), 1)
  local values = table.pack(async.await(4, function(a, b, c, callback) callback(a, b, c) end, nil, 2))
  equal(values.n, 3)
  equal(values[2], 2)
  local sum = async.wrap(3, function(a, b, callback) later(1, callback, a + b) end)
  equal(sum(3, 4), 7)
end)

-- --- Misuse --------------------------------------------------------------------------------------

test("awaiting something else is an error that says what can be awaited", function()
  raises("got nil", async.await, nil)
  raises("got no value", async.await)
  raises("got table", async.await, {})
  raises("got number", async.await, 1)
  raises("position", async.await, 0, print)
  raises("position", async.await, 201, print)
  raises("got number", async.await, 1.5, print)
  raises("integer", async.wrap, 0, print)
  raises("function", async.wrap, 1, 1)
  raises("function", async.run)
  raises("unknown option", async.run, { nam = 1 }, print)
  raises("milliseconds", async.sleep, -1)
  raises("milliseconds", async.sleep, 0 / 0)
  raises("not a task", async.await_all, { 1 })
  raises("function", async.scope)
end)

test("a task cannot await itself or an ancestor", function()
  raises("never end", function() async.await(async.current()) end)
  local outer = async.current()
  async.await(async.run(function()
    raises("never end", async.await, outer)
    raises("never end", async.await_any, { outer })
    raises("never end", async.await_all, { outer })
    raises("never end", function() outer:wait() end)
  end))
end)

-- --- Futures -------------------------------------------------------------------------------------

test("a future gives its results to every task that awaits it, before and after", function()
  local future = async.future()
  local tasks = {}
  for i = 1, 3 do
    tasks[i] = async.run(function() return async.await(future) end)
  end
  future:complete(nil, 1, nil)
  for _, results in ipairs(async.await_all(tasks)) do
    equal(results.n, 2)
    equal(results[1], 1)
  end
  equal(select("#", future:wait()), 2)
  raises("completed already", future.complete, future, nil)
end)

test("a future raises its error as it is, false included", function()
  local object, future = {}, async.future()
  future:complete(object)
  equal(select(2, pcall(async.await, future)), object)
  local none = async.future()
  none:complete()
  equal(select("#", async.await(none)), 0)
end)

-- --- Closables -----------------------------------------------------------------------------------

local function closable(name, fail)
  local self = { closed = 0 }
  function self:close()
    self.closed = self.closed + 1
    note(name, "closed")
    if fail then
      error(fail, 0)
    end
  end
  function self:is_closing()
    return self.closed > 0
  end
  return self
end

test("the handle that an awaited function returns is closed when the wait ends, early or late", function()
  local one, two = closable "one", closable "two"
  async.await(function(callback) callback() return one end)
  equal(one.closed, 1)
  async.await(function(callback) later(1, callback) return two end)
  equal(two.closed, 1)
end)

test("the handle that an awaited function returns is closed when the wait is cancelled", function()
  local one = closable "one"
  local task = async.run(function() async.await(function() return one end) end)
  equal(one.closed, 0)
  task:close()
  equal(one.closed, 1)
end)

test("the handle that an awaited function returns is closed when a child fails", function()
  local one = closable "one"
  local ok, err = pcall(function()
    async.run(function() async.sleep(1) error("child", 0) end)
    async.await(function() return one end)
  end)
  equal(ok, false)
  equal(err, "child")
  equal(one.closed, 1)
end)

test("a handle that is closing already is left alone", function()
  local one = closable "one"
  async.await(function(callback) one:close() callback() return one end)
  equal(one.closed, 1)
  local timer
  async.await(function(callback)
    timer = loop.new_timer()
    timer:start(1, 0, function() timer:close() callback() end)
    return timer
  end)
  equal(timer:is_closing(), true)
end)

test("an error in closing is raised if the wait went well, and the wait's error comes first", function()
  local bad = closable("bad", "in close")
  raises("in close", async.await, function(callback) callback() return bad end)
  local task = async.run(function() async.await(function() return closable("bad", "in close") end) end)
  task:close()
  local ok, err = async.pawait(task)
  equal(ok, false)
  equal(err, "closed")
end)

-- The result of a task that waits for an object with a broken close(), when something ends the
-- wait.
local function waits_for_bad(options, wait)
  return async.run(options, function()
    return wait(async.await, function() return closable("bad", { "in close" }) end)
  end)
end

test("an error in closing the handle of a closed task is among the task's errors", function()
  local task = waits_for_bad({}, pcall)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  equal(#task:errors(), 1)
  equal(task:errors()[1][1], "in close")
end)

test("an error in closing is kept behind the child's error that ended the wait", function()
  local task = async.run({ detached = true }, function()
    async.run(function() async.sleep(1) error("child", 0) end)
    async.await(function() return closable("bad", "in close") end)
  end)
  equal(select(2, async.pawait(task)), "child")
  equal(table.concat(task:errors(), "; "), "child; in close")
end)

test("an error in closing a handle interrupts a task that has caught the first error", function()
  local task = async.run({ detached = true }, function()
    async.run(function() async.sleep(1) error("child", 0) end)
    note(select(2, pcall(async.await, function() return closable("bad", "in close") end)))
    note(select(2, pcall(async.sleep, 5)))
  end)
  equal(async.pawait(task), true)
  check.notes "bad closed; child; in close"
end)

test("asking whether it is closing may fail, too", function()
  local task = async.run(function()
    async.await(function() return { close = print, is_closing = function() error("asked", 0) end } end)
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  equal(table.concat(task:errors(), "; "), "asked")
end)

test("a close that waits, and is told so, has not failed", function()
  local task = async.run(function()
    async.await(function() return { close = function() async.sleep(1) end } end)
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  equal(#task:errors(), 0)
end)

test("a task, a timer or a plain value may be returned", function()
  local task
  async.await(function(callback)
    task = async.run(function() async.sleep(1000) end)
    callback()
    return task
  end)
  equal(task:status(), "completed")
  equal(async.await(function(callback) callback(1) return 5 end), 1)
  equal(async.await(function(callback) callback(1) return {} end), 1)
  equal(async.await(function(callback) callback(1) return io.stdout.write end), 1)
end)

-- --- Lists ---------------------------------------------------------------------------------------

local function sleeper(ms, ...)
  local results = table.pack(...)
  return async.run(function()
    async.sleep(ms)
    return table.unpack(results, 1, results.n)
  end)
end

test("await_all returns packed results in order, and nothing at once for an empty list", function()
  local all = async.await_all { sleeper(5, 1), sleeper(1, nil, 2), sleeper(3) }
  equal(all[1][1], 1)
  equal(all[2].n, 2)
  equal(all[3].n, 0)
  equal(#async.await_all {}, 0)
  equal(check.elapsed(), 5)
end)

test("await_all raises the first error at once", function()
  local ok, err = pcall(async.await_all, {
    sleeper(50),
    async.run(function() async.sleep(2) error("late", 0) end),
    async.run(function() async.sleep(1) error("first", 0) end),
  })
  equal(ok, false)
  equal(err, "first")
  equal(check.elapsed(), 1)
  pcall(async.sleep, 5)
end)

test("await_any gives the first index and its results, and refuses an empty list", function()
  local index, a, b = async.await_any { sleeper(9), sleeper(2, "x", "y"), sleeper(3) }
  equal(index, 2)
  equal(a .. b, "xy")
  raises("empty", async.await_any, {})
end)

test("await_any prefers a task that is done already", function()
  local done = async.run(function() return "done" end)
  equal(select(2, async.await_any { sleeper(1), done }), "done")
  equal(check.elapsed(), 0)
end)

test("iter goes in the order of completion, once, errors included", function()
  local tasks = {
    sleeper(3, "c"), sleeper(1, "a"), async.run(function() async.sleep(2) error("b", 0) end),
    async.run(function() return "at once" end),
  }
  local iterator = async.iter(tasks)
  for index, err, value in iterator do
    note(index, err, value)
  end
  check.notes "4 nil at once; 2 nil a; 3 b nil; 1 nil c"
  equal(iterator(), nil)
  for _ in async.iter {} do
    error "an empty list has nothing"
  end
end)

test("the same task may be in a list twice", function()
  local task = sleeper(1, "v")
  local all = async.await_all { task, task }
  equal(all[1][1] .. all[2][1], "vv")
  local n = 0
  for _ in async.iter { task, task } do
    n = n + 1
  end
  equal(n, 2)
end)

test("changing the list while it is awaited changes nothing", function()
  local tasks = { sleeper(2, "a"), sleeper(1, "b") }
  for index, err, value in async.iter(tasks) do
    equal(err, nil)
    note(index, value)
    tasks[1], tasks[2] = nil, nil
  end
  check.notes "2 b; 1 a"
  local more = { sleeper(2, "a"), sleeper(1, "b") }
  later(1, function() more[3] = sleeper(1) more[1] = 5 end)
  equal(#async.await_all(more), 2)
end)

test("a loop over iter that is broken off waits for the others no more", function()
  local late = async.run(function() async.sleep(5) error("late", 0) end)
  for _ in async.iter { sleeper(1), late } do
    break
  end
  local ok, err = pcall(async.sleep, 50)
  equal(ok, false)
  equal(err, "late")
  equal(check.elapsed(), 5)
end)

test("closing a returned handle may wait", function()
  local handle = { close = function() async.shield(async.sleep, 5) note "closed" end }
  async.await(function(callback) callback() return handle end)
  check.notes "closed"
  equal(check.elapsed(), 5)
end)

-- --- Order of completion -------------------------------------------------------------------------

local function done_in_order(...)
  local tasks = {}
  for i, ms in ipairs { ... } do
    tasks[i] = async.run(function()
      async.sleep(ms)
      if ms == 2 then error("failed", 0) end
      return ms
    end):detach()
  end
  return tasks
end

test("tasks that are done already come in the order in which they were", { errors = true }, function()
  local tasks = done_in_order(5, 3, 4, 1, 20, 2, 10)
  async.sleep(7)
  for index, err, ms in async.iter(tasks) do
    note(index, err or ms)
  end
  check.notes "4 1; 6 failed; 2 3; 3 4; 1 5; 7 10; 5 20"
  equal(async.await_any(tasks), 4)
end)

test("a task that is listed twice comes twice", function()
  local tasks = done_in_order(3, 1)
  tasks[3], tasks[4] = tasks[1], tasks[2]
  async.sleep(5)
  for index in async.iter(tasks) do
    note(index)
  end
  check.notes "2; 4; 1; 3"
end)

test("many that are done come in order, and none is lost", function()
  local tasks, order = {}, {}
  for i = 1, 1000 do
    tasks[i] = async.run(function()
      async.sleep(i * 7919 % 1009)
      order[#order + 1] = i
    end)
  end
  async.sleep(600)
  for index in async.iter(tasks) do
    equal(index, table.remove(order, 1))
  end
  equal(#order, 0)
end)

-- --- Futures that are not waited for to the end --------------------------------------------------

test("closing a task in future:wait(callback) raises closed, and nothing is called back", function()
  local future = async.future()
  local caught
  local task = async.run(function()
    local ok, err = pcall(future.wait, future, note)
    caught = { ok, err }
    future:wait(note)
  end)
  task:close()
  equal(caught[1], false)
  equal(caught[2], "closed")
  equal(select(2, async.pawait(task)), "closed")
  equal(#task:errors(), 0)
  future:complete(nil, 1)
  check.notes ""
end)

test("a child's error interrupts future:wait(callback)", function()
  local future = async.future()
  local task = async.run({ detached = true }, function()
    async.run(function() async.sleep(1) error("child", 0) end)
    note(select(2, pcall(future.wait, future, note)))
    async.run(function() async.sleep(1) future:complete("bad") end)
    future:wait(note)
  end)
  equal(async.pawait(task), true)
  check.notes "child; bad"
end)
