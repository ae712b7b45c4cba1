-- Blocks: timeout, with_timeout, move_on_after, shield, scope, supervise, and blocks inside blocks.

local check = require "check"
local async = require("orrery").async
local test, equal, note, raises = check.test, check.equal, check.note, check.raises

test("timeout raises after the task's cleanup", function()
  local task = async.run(function()
    local ok, err = pcall(async.sleep, 100)
    note(ok, err)
    async.shield(async.sleep, 7)
    note "cleaned"
  end)
  raises("timeout", async.timeout, 5, task)
  check.notes "false closed; cleaned"
  equal(check.elapsed(), 12)
  equal(task:status(), "completed")
end)

test("timeout passes on results and errors of a task that is in time", function()
  equal(select("#", async.timeout(10, async.run(function() async.sleep(1) return nil, nil end))), 2)
  local object = {}
  local task = async.run(function() async.sleep(1) error(object) end)
  equal(select(2, pcall(async.timeout, 10, task)), object)
  local own = async.run(function() async.sleep(1) error("timeout", 0) end)
  equal(select(2, pcall(async.timeout, 10, own)), "timeout")
end)

test("timeout of a task that is done already gives its results, even with no time", function()
  equal(async.timeout(0, async.run(function() return 5 end)), 5)
end)

test("with_timeout cuts the block short, and leaves its children done", function()
  local child
  raises("timeout", async.with_timeout, 5, function()
    child = async.run(async.sleep, 100)
    async.sleep(50)
  end)
  equal(child:status(), "completed")
  equal(check.elapsed(), 5)
  equal(select("#", async.with_timeout(5, function(...) return ... end, nil, nil)), 2)
end)

test("a block that swallows the cancellation is cut short all the same", function()
  local ok, err = pcall(async.with_timeout, 5, function()
    pcall(async.sleep, 50)
    note(select(2, pcall(async.sleep, 50)))
    return "value"
  end)
  note(ok, err)
  equal(check.elapsed(), 5)
end)

test("move_on_after goes on without an error", function()
  equal(select("#", async.move_on_after(5, async.sleep, 50)), 0)
  equal(check.elapsed(), 5)
  equal(async.move_on_after(5, function() return "v" end), "v")
end)

test("timeouts nest: the one that expires is the one that raises", function()
  local ok = pcall(async.with_timeout, 20, function()
    raises("timeout", async.with_timeout, 5, async.sleep, 50)
    note(check.elapsed())
    async.move_on_after(5, async.sleep, 50)
    note(check.elapsed())
    raises("closed", async.with_timeout, 50, async.sleep, 100)
    note(check.elapsed())
    async.sleep(1)
  end)
  equal(ok, false)
  check.notes "5; 10; 20"
  async.sleep(1)
  equal(check.elapsed(), 21)
end)

test("an outer time that is up cuts through an inner move_on_after", function()
  raises("timeout", async.with_timeout, 5, function()
    async.move_on_after(50, async.sleep, 100)
    note "not here"
  end)
  check.notes ""
end)

test("with_timeout with no time ends the first wait", function()
  raises("timeout", async.with_timeout, 0, async.sleep, 1)
  equal(check.elapsed(), 0)
end)

test("a shield keeps cancellation out until it ends", function()
  local task = async.run(function()
    async.shield(function()
      async.sleep(10)
      note "shielded"
      equal(async.is_closing(), false)
    end)
    note "after"
    async.sleep(1)
    note "not here"
  end)
  task:close()
  async.pawait(task)
  check.notes "shielded; after"
  equal(check.elapsed(), 10)
end)

test("a shield inside a time is not cut, and a time inside a shield is", function()
  local ok, err = pcall(async.with_timeout, 5, function()
    async.shield(async.sleep, 20)
    async.sleep(1)
  end)
  equal(ok, false)
  equal(err, "timeout")
  equal(check.elapsed(), 20)
  async.shield(function()
    raises("timeout", async.with_timeout, 5, async.sleep, 50)
  end)
  equal(check.elapsed(), 25)
end)

test("a scope joins its children, and gives the function's results", function()
  local a, b = async.scope(function(x)
    async.run(function() async.sleep(5) note "child" end)
    note "body"
    return x, nil
  end, 1)
  equal(a, 1)
  equal(b, nil)
  check.notes "body; child"
end)

test("a child's failure in a scope ends the others and is raised there", function()
  local object = {}
  local err = raises(nil, async.scope, function()
    async.run(function() async.sleep(2) error(object) end)
    async.run(function()
      local _ <close> = setmetatable({}, { __close = function() note "other closed" end })
      async.sleep(100)
    end)
  end)
  equal(err, object)
  check.notes "other closed"
  equal(check.elapsed(), 2)
end)

test("the function's own error in a scope ends its children first", function()
  local object = {}
  local err = raises(nil, async.scope, function()
    async.run(function()
      pcall(async.sleep, 100)
      async.shield(async.sleep, 3)
      note "cleaned"
    end)
    error(object)
  end)
  equal(err, object)
  check.notes "cleaned"
  equal(check.elapsed(), 3)
end)

test("supervise lets the others go on, and tells at the end", function()
  local err = raises(nil, async.supervise, function()
    async.run(function() async.sleep(1) error("one", 0) end)
    async.run(function() async.sleep(2) error("two", 0) end)
    async.run(function() async.sleep(5) note "third" end)
    async.sleep(3)
    note "body"
  end)
  equal(err, "one")
  check.notes "body; third"
end)

test("a failure outside interrupts a scope, and is raised once", function()
  local ok, err = pcall(function()
    async.run(function() async.sleep(2) error("outside", 0) end)
    async.scope(function()
      async.run(async.sleep, 100)
    end)
  end)
  equal(ok, false)
  equal(err, "outside")
  equal(check.elapsed(), 2)
  async.sleep(1)
end)

test("blocks in blocks in blocks, a hundred deep, all unwind", function()
  local depth = 0
  local function deeper(n)
    if n == 0 then
      return async.sleep(1000)
    end
    local kinds = { async.scope, async.supervise, function(fn, ...) return async.with_timeout(500 + n, fn, ...) end }
    kinds[n % 3 + 1](function()
      local _ <close> = setmetatable({}, { __close = function() depth = depth + 1 end })
      deeper(n - 1)
    end)
  end
  raises("timeout", async.with_timeout, 5, deeper, 50)
  equal(depth, 50)
  equal(check.elapsed(), 5)
end)

test("pwait with a time leaves the task running", function()
  local task = async.run(function() async.sleep(10) return "v" end)
  local ok, err = task:pwait(2)
  equal(ok, false)
  equal(err, "timeout")
  equal(task:status(), "awaiting")
  raises("timeout", function() task:wait(2) end)
  equal(task:wait(100), "v")
end)
