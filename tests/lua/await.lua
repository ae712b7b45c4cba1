-- await in all its forms, and waiting for many.

local check = require "check"
local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop
local test, equal, note = check.test, check.equal, check.note

local function later(ms, fn)
  loop.set_timeout(ms, fn)
end

local function sleeper(ms, ...)
  local results = table.pack(...)
  return async.run(function()
    async.sleep(ms)
    return table.unpack(results, 1, results.n)
  end)
end

test("a callback that comes at once, or later, gives its arguments, nils and all", function()
  equal(select("#", async.await(function(callback) callback() end)), 0)
  equal(select("#", async.await(function(callback) callback(nil, nil) end)), 2)
  local a, b, c = async.await(function(callback)
    later(5, function() callback(1, nil, 3) end)
  end)
  equal(a, 1)
  equal(b, nil)
  equal(c, 3)
  check.equal(check.elapsed(), 5)
end)

test("a callback that comes twice, or late, reaches no other wait", function()
  local kept
  equal(async.await(function(callback)
    kept = callback
    callback(1)
    callback(2)
  end), 1)
  kept(3)
  equal(async.await(function(callback)
    kept(4)
    later(5, function()
      kept(5)
      callback(6)
    end)
  end), 6)
  kept(7)
  async.sleep(1)
end)

test("a callback may come from another coroutine or another task", function()
  equal(async.await(function(callback)
    coroutine.wrap(function() callback("coroutine") end)()
  end), "coroutine")
  equal(async.await(function(callback)
    async.run(function()
      async.sleep(5)
      callback("task")
    end)
  end), "task")
end)

test("a function that is awaited may itself wait", function()
  equal(async.await(function(callback)
    async.sleep(5)
    equal(async.await(function(inner) later(5, function() inner("inner") end) end), "inner")
    later(5, function() callback("outer") end)
  end), "outer")
end)

test("the position of the callback can be given, or fixed", function()
  local function add(a, b, callback)
    later(1, function() callback(a + b) end)
  end
  equal(async.await(3, add, 1, 2), 3)
  equal(async.wrap(3, add)(3, 4), 7)
  equal(async.await(1, function(callback, extra) callback(extra) end, "dropped"), nil)
end)

test("what an awaited function returns is closed when the wait ends, however it ends", function()
  local function closable()
    return { close = function() note "closed" end }
  end
  async.await(function(callback)
    callback()
    return closable()
  end)
  async.await(function(callback)
    later(1, callback)
    return closable()
  end)
  local task = async.run(pcall, async.await, closable)
  task:close()
  async.await(async.run(function()
    async.run(function() async.sleep(1) error "child" end)
    equal(pcall(async.await, closable), false)
  end))
  async.await(function(callback)
    callback()
    return { is_closing = function() return true end, close = function() note "wrong" end }
  end)
  check.notes "closed; closed; closed; closed"
end)

test("an error in the awaited function, or in closing, is raised", function()
  check.raises("broken", async.await, function() error "broken" end)
  check.raises("cannot close", async.await, function(callback)
    callback()
    return { close = function() error "cannot close" end }
  end)
  async.sleep(1)
end)

test("a future gives its results to all who wait, before and after", function()
  local future = async.future()
  local first = async.run(async.await, future)
  local second = async.run(function() return future:wait() end)
  later(5, function() future:complete(nil, 1, nil) end)
  equal(select("#", async.await(first)), 2)
  equal(async.await(second), 1)
  equal(async.await(future), 1)
  future:wait(function(err, value) note("called", err, value) end)
  check.notes "called nil 1"
  check.raises("completed already", future.complete, future, nil)
end)

test("a future completed with an error raises that very error", function()
  local problem = {}
  local future = async.future()
  future:complete(problem)
  equal(select(2, pcall(async.await, future)), problem)
end)

test("await_all gives a list of packed results, in order", function()
  local results = async.await_all { sleeper(20, "a", nil), sleeper(10), sleeper(15, false) }
  equal(#results, 3)
  equal(results[1].n, 2)
  equal(results[1][1], "a")
  equal(results[2].n, 0)
  equal(results[3][1], false)
  equal(check.elapsed(), 20)
  equal(#async.await_all {}, 0)
end)

test("await_all raises the first error at once, and the others go on", function()
  local slow = sleeper(100)
  local fails = async.run({ detached = true }, function()
    async.sleep(5)
    error("first", 0)
  end)
  equal(select(2, pcall(async.await_all, { slow, fails })), "first")
  equal(check.elapsed(), 5)
  equal(slow:status(), "awaiting")
end)

test("await_any gives the index of the first, and its results", function()
  local index, value = async.await_any { sleeper(20, "slow"), sleeper(10, "quick") }
  equal(index, 2)
  equal(value, "quick")
  check.raises("empty", async.await_any, {})
end)

test("iter goes through tasks in the order in which they are done, once", function()
  local tasks = {
    sleeper(30, "c"), sleeper(10, "a"), async.run({ detached = true }, function() error("e", 0) end), sleeper(20, "b"),
  }
  for index, err, value in async.iter(tasks) do
    note(index, err, value)
  end
  check.notes "3 e nil; 2 nil a; 4 nil b; 1 nil c"
  for _ in async.iter {} do
    error "an empty list ends at once"
  end
end)

test("timeout raises after the task's cleanup, and gives results in time", function()
  local task = async.run(function()
    local _, err = pcall(async.sleep, 1000)
    async.shield(async.sleep, 30)
    note("cleaned up", err)
  end)
  equal(select(2, pcall(async.timeout, 10, task)), "timeout")
  check.notes "cleaned up closed"
  equal(check.elapsed(), 40)
  equal(async.timeout(10, sleeper(5, "in time")), "in time")
  equal(select(2, pcall(async.timeout, 10, async.run(error, "own"))), "own")
end)

test("time limits nest: the outer cuts through the inner, and a shield holds both", function()
  equal(select(2, pcall(async.with_timeout, 10, async.with_timeout, 100, async.sleep, 50)), "timeout")
  equal(check.elapsed(), 10)
  equal(select("#", async.move_on_after(10, async.with_timeout, 100, async.sleep, 50)), 0)
  equal(check.elapsed(), 20)
  equal(async.move_on_after(10, async.shield, function()
    async.sleep(50)
    return "held"
  end), "held")
  equal(check.elapsed(), 70)
  equal(async.with_timeout(10, function() return "at once" end), "at once")
end)

test("a scope joins what was started in it; a supervisor waits for all before it raises", function()
  async.scope(function()
    async.run(async.sleep, 30)
  end)
  equal(check.elapsed(), 30)
  local ok, err = pcall(async.supervise, function()
    async.run(function() error("one", 0) end)
    async.run(function()
      async.sleep(20)
      note "other"
    end)
    async.sleep(10)
    note "body"
  end)
  equal(ok, false)
  equal(err, "one")
  check.notes "body; other"
end)

test("wait and pwait bound the waiting, not the task", function()
  local task = sleeper(100, "done")
  local ok, err = task:pwait(10)
  equal(ok, false)
  equal(err, "timeout")
  equal(task:wait(), "done")
  check.raises("timeout", task.wait, sleeper(50), 10)
end)

test("on_complete is told the error or nil, and the results, also afterwards", function()
  local task = sleeper(5, 1, 2)
  task:on_complete(function(err, a, b) note("first", err, a, b) end)
  async.await(task)
  task:on_complete(function(err, a) note("second", err, a) end)
  async.run({ detached = true }, function() error("bad", 0) end):on_complete(function(err) note("third", err) end)
  async.sleep(1)
  check.notes "first nil 1 2; second nil 1; third bad"
end)

test("misuse is refused with words", function()
  check.raises("expected a task, a future, a function", async.await, 42)
  check.raises("function", async.run, 42)
  check.raises("unknown option 'nmae'", async.run, { nmae = "x" }, function() end)
  check.raises("milliseconds", async.sleep, -1)
  check.raises("milliseconds", async.sleep, 0 / 0)
  check.raises("milliseconds", async.sleep, math.huge)
  check.raises("number expected", async.sleep, "soon")
  check.raises("item 2 of the list is not a task", async.await_all, { sleeper(1), 2 })
  check.raises("cannot await itself", function() async.await(async.current()) end)
  local parent
  parent = async.run(function()
    async.sleep(1)
    async.run(function() check.raises("part of", async.await, parent) end)
  end)
  async.await(parent)
end)

check.done()
