-- Coroutines of the script's own inside tasks, and waiting wherever Lua can yield.

local check = require "check"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note

test("an iterator made with coroutine.wrap may wait between its items", function()
  local function items()
    return coroutine.wrap(function()
      for i = 1, 3 do
        async.sleep(10)
        coroutine.yield(i)
      end
    end)
  end
  for i in items() do
    note(i)
  end
  check.notes "1; 2; 3"
  equal(check.elapsed(), 30)
end)

test("resume returns what is yielded, through any number of waits and levels", function()
  local inner = coroutine.create(function(a)
    async.sleep(5)
    local b = coroutine.yield(a + 1)
    async.sleep(5)
    return b + 1
  end)
  local outer = coroutine.wrap(function()
    local _, x = coroutine.resume(inner, 1)
    coroutine.yield(x)
    local _, y = coroutine.resume(inner, 10)
    return y
  end)
  equal(outer(), 2)
  equal(outer(), 11)
  equal(coroutine.status(inner), "dead")
  equal(check.elapsed(), 10)
end)

test("an error in a coroutine that has waited comes out of resume and of wrap", function()
  local function fails()
    async.sleep(1)
    error("inside", 0)
  end
  local ok, err = coroutine.resume(coroutine.create(fails))
  equal(ok, false)
  equal(err, "inside")
  check.raises("inside", coroutine.wrap(fails))
end)

test("a coroutine that waits is normal, and nobody else can resume or close it", function()
  local co = coroutine.create(function() async.sleep(20) end)
  local task = async.run(coroutine.resume, co)
  equal(coroutine.status(co), "normal")
  local ok, err = coroutine.resume(co)
  equal(ok, false)
  check.truthy(err:find "waiting inside a task", err)
  check.raises("normal", coroutine.close, co)
  async.await(task)
  equal(coroutine.status(co), "dead")
end)

test("closing a task unwinds its coroutines and what they have to close", function()
  local task = async.run(function()
    local step = coroutine.wrap(function()
      local a <close> = setmetatable({}, { __close = function() note "inner closed" end }) -- luacheck: ignore
      async.sleep(1000)
    end)
    step()
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  check.notes "inner closed"
end)

test("a task's own coroutine is not for yielding, resuming or closing by hand", function()
  check.raises("async.checkpoint", coroutine.yield, 1)
  local co
  local task = async.run(function()
    co = coroutine.running()
    async.sleep(10)
  end)
  local ok, err = coroutine.resume(co)
  equal(ok, false)
  check.truthy(err:find "is a task's", err)
  check.raises("close the task", coroutine.close, co)
  async.await(task)
end)

test("running, isyieldable and status tell the truth", function()
  local co, main = coroutine.running()
  equal(type(co), "thread")
  equal(main, false)
  equal(coroutine.status(co), "running")
  coroutine.wrap(function()
    equal(coroutine.status(co), "normal")
    equal(coroutine.isyieldable(), true)
  end)()
  local fresh = coroutine.create(print)
  equal(coroutine.status(fresh), "suspended")
  equal(coroutine.close(fresh), true)
  equal(coroutine.status(fresh), "dead")
end)

test("waiting goes through pcall, xpcall, metamethods, iterators and cleanup", function()
  local waits = setmetatable({}, {
    __index = function(_, key) async.sleep(1) return key end,
    __newindex = function() async.sleep(1) end,
    __add = function() async.sleep(1) return "sum" end,
    __eq = function() async.sleep(1) return true end,
    __lt = function() async.sleep(1) return true end,
    __concat = function() async.sleep(1) return "joined" end,
    __len = function() async.sleep(1) return 7 end,
    __call = function(_, x) async.sleep(1) return x end,
    __close = function() async.sleep(1) end,
  })
  equal(waits.key, "key")
  waits.x = 1
  equal(waits + 1, "sum")
  equal(waits == setmetatable({}, getmetatable(waits)), true)
  equal(waits < waits, true)
  equal(waits .. "x", "joined")
  equal(#waits, 7)
  equal(waits(5), 5)
  do
    local held <close> = waits -- luacheck: ignore
  end
  equal(select(2, pcall(function() async.sleep(1) return "p" end)), "p")
  equal(select(2, xpcall(function() async.sleep(1) error("x", 0) end, function(e) return e .. "!" end)), "x!")
  for i in function(_, last) async.sleep(1) return not last and 1 or nil end do
    equal(i, 1)
  end
  equal(check.elapsed(), 13)
end)

test("where Lua cannot yield, the error names the C function in the way", function()
  check.raises("'table.sort'", table.sort, { 2, 1 }, function() async.sleep(1) return true end)
  check.raises("'string.gsub'", string.gsub, "a", "a", function() async.sleep(1) end)
  check.raises("tostring", tostring, setmetatable({}, { __tostring = function() async.sleep(1) return "" end }))
  async.sleep(1) -- and nothing is left behind
end)

test("where the caller cannot be suspended, tasks still start at once", function()
  local list = { 3, 1, 2 }
  table.sort(list, function(a, b)
    async.run(function() note "started" end)
    return a < b
  end)
  equal(table.concat(list, ","), "1,2,3")
end)

test("a module may wait while it is loaded, and is loaded once", function()
  package.preload["waits.while.loading"] = function(name)
    async.sleep(10)
    note("loaded", name)
    return { name = name }
  end
  local other = async.run(require, "waits.while.loading")
  local module = require "waits.while.loading"
  equal(async.await(other), module)
  check.notes "loaded waits.while.loading"
  package.preload["needs.itself"] = function() return require "needs.itself" end
  check.raises("requires itself", require, "needs.itself")
  check.raises("not found", require, "nowhere.to.be.found")
end)

check.done()
