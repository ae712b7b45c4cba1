-- Code that would corrupt memory if it were not refused or survived.  Every script can write it.

local check = require "check"
local orrery = require "orrery"
local async = orrery.async
local test, equal = check.test, check.equal

local function collect()
  for _ = 1, 3 do
    collectgarbage()
  end
end

local function in_gsub(fn, ...)
  local args = table.pack(...)
  return pcall(string.gsub, "a", "a", function() fn(table.unpack(args, 1, args.n)) end)
end

test("where the task cannot wait, nothing is begun that would have to be left in the middle", function()
  local called = false
  local function call() called = true end
  for _, begin in ipairs { async.await, async.scope, async.shield } do
    equal(in_gsub(begin, call), false)
  end
  equal(in_gsub(async.with_timeout, 10, call), false)
  equal(called, false)
  collect()
  async.sleep(1)
  equal(check.elapsed(), 1)
end)

test("a scope in a coroutine that is never resumed is given up", function()
  local generator = coroutine.wrap(function()
    async.scope(function() coroutine.yield(1) end)
  end)
  equal(pcall(generator) ~= nil, true)
  generator = nil -- luacheck: ignore
  collect()
  async.await(async.run(function() end))
  async.scope(async.sleep, 1)
end)

test("a scope in a coroutine that is closed is left", function()
  local co = coroutine.create(function()
    async.with_timeout(5, function() coroutine.yield(1) end)
  end)
  coroutine.resume(co)
  coroutine.close(co)
  co = nil -- luacheck: ignore
  collect()
  async.sleep(10)
  async.await(async.run(function() end))
end)

test("scopes of two coroutines that take turns do not mix", function()
  local function worker()
    async.scope(function() coroutine.yield() end)
  end
  local a, b = coroutine.create(worker), coroutine.create(worker)
  local results = {}
  for _, co in ipairs { a, b, a, b } do
    results[#results + 1] = select(2, coroutine.resume(co)) or "fine"
  end
  for _, result in ipairs(results) do
    equal(tostring(result):find "Invalid argument", nil, result)
  end
  a, b = nil, nil -- luacheck: ignore
  collect()
  async.scope(async.sleep, 1)
end)

test("waiting for a descriptor where it cannot wait leaves nothing behind", function()
  local pipe = assert(io.popen("sleep 0.2", "r"))
  for fd = 3, 12 do
    in_gsub(async.readable, fd)
  end
  collect()
  async.sleep(5)
  pipe:close()
end)

test("metamethods are not for scripts", function()
  local things = {
    async.event(), async.semaphore(1), async.mutex(), async.condition(), async.queue(), async.future(),
    orrery.loop.new_timer(), async.run(async.sleep, 3),
  }
  for _, one in ipairs(things) do
    for _, other in ipairs(things) do
      pcall(function() one.__gc(other) end)
      pcall(function() getmetatable(one).__gc(other) end)
    end
    pcall(function() one.__gc() end)
    pcall(function() one.__gc(5) end)
  end
  async.sleep(5)
end)

test("the coroutine of a task that is over is not the next task's, to be resumed", function()
  local mine
  async.await(async.run(function() mine = coroutine.running() end))
  local ran = 0
  orrery.schedule(function(...) ran = ran + select("#", ...) end, 1, 2)
  coroutine.resume(mine)
  check.raises("is a task's", coroutine.close, mine)
  async.sleep(1)
  equal(ran, 2)
end)

test("the coroutine of a task that has ended keeps its results", function()
  local mine
  local task = async.run(function() mine = coroutine.running() return "a", "b", "c" end)
  pcall(coroutine.close, mine)
  pcall(coroutine.resume, mine)
  local a, b, c = async.await(task)
  equal(tostring(a) .. tostring(b) .. tostring(c), "abc")
end)

test("tasks started inside one another where none can wait end with an error, not with the stack", function()
  local function through_c(n, fn)
    if n == 0 then
      return fn()
    end
    string.gsub("a", "a", function() through_c(n - 1, fn) end)
  end
  local deepest = 0
  local function nest(n)
    deepest = deepest + 1
    if n > 0 then
      async.run(function() pcall(through_c, 150, function() nest(n - 1) end) end)
    end
  end
  nest(200)
  check.truthy(deepest > 1)
end)

test("a task that was refused because of its depth has no parent", function()
  local refused
  local function nest(n)
    if n > 0 then
      async.run(function()
        local ok, err = pcall(string.gsub, "a", "a", function() nest(n - 1) end)
        refused = refused or not ok and err
      end)
    end
  end
  async.with_timeout(50, nest, 200)
  check.truthy(refused, "a refusal")
  equal(check.elapsed(), 0)
end)
