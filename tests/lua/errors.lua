-- Errors: any value, the same all the way up; cleanup; reports.

local check = require "check"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note

test("any value can be an error, and stays the same", function()
  local function values()
    return { {}, 42, false, "text", async.run, coroutine.create(print) }
  end
  for _, value in ipairs(values()) do
    local _, err = pcall(async.await, async.run(error, value))
    equal(err, value)
    local _, through = pcall(async.await, async.run(function() async.await(async.run(error, value)) end))
    equal(through, value)
  end
  local ok, err = pcall(async.await, async.run(error, nil))
  equal(ok, false)
  equal(err, nil)
end)

test("a child's error is raised where its parent waits, once", function()
  local problem = {}
  async.run(function()
    async.sleep(5)
    error(problem)
  end)
  local ok, err = pcall(async.sleep, 100)
  equal(ok, false)
  equal(err, problem)
  equal(check.elapsed(), 5)
  async.sleep(10)
  equal(check.elapsed(), 15)
end)

test("an error that is not caught ends the others, after their cleanup, and the parent", function()
  local parent = async.run(function()
    async.run(function()
      async.sleep(5)
      error("first", 0)
    end)
    async.run(function()
      pcall(async.sleep, 1000)
      async.shield(async.sleep, 20)
      note "cleaned up"
    end)
    async.sleep(100)
  end)
  equal(select(2, async.pawait(parent)), "first")
  check.notes "cleaned up"
  equal(check.elapsed(), 25)
end)

test("later errors are kept beside the first", function()
  local parent = async.run(function()
    async.run(function()
      async.sleep(5)
      error("first", 0)
    end)
    async.run(function()
      pcall(async.sleep, 1000)
      error("second", 0)
    end)
    async.sleep(100)
  end)
  equal(select(2, async.pawait(parent)), "first")
  local errors = parent:errors()
  equal(#errors, 2)
  equal(errors[1], "first")
  equal(errors[2], "second")
end)

test("the failure of a child fails a parent whose function has returned", function()
  local parent = async.run(function()
    async.run(function()
      async.sleep(5)
      error("late", 0)
    end)
    return "value"
  end)
  local ok, err = async.pawait(parent)
  equal(ok, false)
  equal(err, "late")
end)

test("awaiting observes a failure: it does not come again", function()
  local child = async.run(function() error("seen", 0) end)
  equal(select(2, pcall(async.await, child)), "seen")
  async.sleep(10)
  equal(select(2, pcall(async.await, child)), "seen")
end)

test("detaching a task that has failed takes the failure from its parent", function()
  local child = async.run(function() error("detached", 0) end)
  child:detach()
  async.sleep(0)
  equal(select(2, async.pawait(child)), "detached")
end)

test("a task completed from outside has that result, and its body is cancelled", function()
  local task = async.run(function()
    local _, err = pcall(async.sleep, 100)
    note(err)
    return "own"
  end)
  task:complete(1, nil, 3)
  local a, b, c = async.await(task)
  equal(a, 1)
  equal(b, nil)
  equal(c, 3)
  check.notes "closed"
  check.raises("completed already", task.complete, task, 2)
end)

test("cleanup may wait, on success, on failure and when closed", function()
  local function guard(name)
    return setmetatable({}, { __close = function(_, err)
      async.shield(async.sleep, 10)
      note(name, err)
    end })
  end
  async.await(async.run(function()
    local a <close> = guard "ok" -- luacheck: ignore
  end))
  pcall(async.await, async.run(function()
    local a <close> = guard "failed" -- luacheck: ignore
    error("bad", 0)
  end))
  local task = async.run(function()
    local a <close> = guard "closed" -- luacheck: ignore
    async.sleep(1000)
  end)
  task:close()
  async.pawait(task)
  check.notes "ok nil; failed bad; closed closed"
  equal(check.elapsed(), 30)
end)

test("an error in cleanup takes the place of the one before it", function()
  local _, err = async.pawait(async.run(function()
    local a <close> = setmetatable({}, { __close = function() error("cleanup", 0) end }) -- luacheck: ignore
    error("body", 0)
  end))
  equal(err, "cleanup")
end)

test("tracebacks show file, line, and the tasks above", function()
  local text
  local task = async.run("outer", function()
    async.run("inner", function()
      text = async.current():traceback "here"
    end)
  end)
  async.await(task)
  for _, part in ipairs { "^here", "task 'inner'", "errors.lua:%d+", "task 'outer'" } do
    check.truthy(text:find(part), part .. " in " .. text)
  end
  local failed = async.run("failing", function() error "why" end)
  async.pawait(failed)
  check.truthy(failed:traceback():find "errors.lua:%d+", "where it failed")
end)

test("where a task was made is remembered when debugging", function()
  async.debug(true)
  local task = async.run("made here", function() async.sleep(1) end)
  async.debug(false)
  check.truthy(task:traceback():find "created at .*errors.lua:%d+", task:traceback())
  async.await(task)
end)

test("an error object whose __tostring fails is still an error", function()
  local bad = setmetatable({}, { __tostring = function() error "no" end })
  equal(select(2, async.pawait(async.run(error, bad))), bad)
end)

test("an error in an observer, or in a finalizer, hurts nobody else", function()
  local task = async.run(async.sleep, 1)
  task:on_complete(function() note "told" end)
  async.await(task)
  setmetatable({}, { __gc = function() error "gc" end })
  collectgarbage()
  async.sleep(1)
  check.notes "told"
end)

check.done()
