-- Plain coroutines inside tasks, and waits through every construct of Lua that can be suspended.

local check = require "check"
local orrery = require "orrery"
local async = orrery.async
local test, equal, note, raises = check.test, check.equal, check.note, check.raises

local function closing(name)
  return setmetatable({}, { __close = function(_, err) note(name, err) end })
end

test("an iterator made with coroutine.wrap may await", function()
  local function numbers(n)
    return coroutine.wrap(function()
      for i = 1, n do
        async.sleep(1)
        coroutine.yield(i, nil)
      end
    end)
  end
  local sum = 0
  for i in numbers(5) do
    sum = sum + i
  end
  equal(sum, 15)
  equal(check.elapsed(), 5)
end)

test("resume returns through awaits with what was yielded or returned", function()
  local co = coroutine.create(function(a, b)
    async.sleep(1)
    local c = coroutine.yield(a, nil, b)
    local d = async.await(function(callback) async.run(function() async.sleep(1) callback(c, 2) end) end)
    return d, nil
  end)
  local values = table.pack(coroutine.resume(co, 1, 3))
  equal(values.n, 4)
  equal(values[4], 3)
  values = table.pack(coroutine.resume(co, "c"))
  equal(values.n, 3)
  equal(values[2], "c")
  equal(coroutine.status(co), "dead")
end)

test("coroutines in coroutines await all the way", function()
  local function nest(n)
    if n == 0 then
      async.sleep(1)
      return "bottom"
    end
    return coroutine.wrap(nest)(n - 1)
  end
  equal(nest(50), "bottom")
end)

test("an error after an await in a coroutine is resume's answer", function()
  local object = {}
  local ok, err = coroutine.resume(coroutine.create(function() async.sleep(1) error(object) end))
  equal(ok, false)
  equal(err, object)
end)

test("cancelling a task closes a coroutine of coroutine.wrap that waits", function()
  local task = async.run(function()
    local _ <close> = closing "outer"
    coroutine.wrap(function()
      local _ <close> = closing "inner"
      async.sleep(100)
    end)()
  end)
  task:close()
  async.pawait(task)
  check.notes "inner closed; outer closed"
end)

test("cancelling a task closes a coroutine of coroutine.resume that waits", function()
  local task = async.run(function()
    local _ <close> = closing "outer"
    local co = coroutine.create(function()
      local _ <close> = closing "inner"
      async.sleep(100)
    end)
    local ok, err = coroutine.resume(co)
    note(ok, err, coroutine.status(co))
    coroutine.close(co)
  end)
  task:close()
  async.pawait(task)
  check.notes "inner closed; false closed dead; outer nil"
end)

test("cancelled with a coroutine that waits, the task is done only when that is closed", function()
  local task = async.run(function()
    local co = coroutine.create(function()
      local _ <close> = closing "inner"
      async.sleep(100)
    end)
    coroutine.resume(co)
    async.sleep(1)
  end)
  task:close()
  async.pawait(task)
  check.notes "inner closed"
end)

test("cleanup in a coroutine may wait in a shield", function()
  local task = async.run(function()
    local ok, err = coroutine.resume(coroutine.create(function()
      local ok, err = pcall(async.sleep, 100)
      async.shield(async.sleep, 5)
      note(ok, err)
    end))
    note(ok, err)
  end)
  task:close()
  async.pawait(task)
  check.notes "false closed; true nil"
  equal(check.elapsed(), 5)
end)

-- --- What is not for scripts ---------------------------------------------------------------------

test("a task's own coroutine cannot be yielded, resumed or closed, and the error says what to do", function()
  raises("async.checkpoint", coroutine.yield)
  local mine
  local task = async.run(function() mine = coroutine.running() async.sleep(5) end)
  local ok, err = coroutine.resume(mine)
  equal(ok, false)
  check.truthy(err:find("task:close", 1, true), err)
  raises("task:close", coroutine.close, mine)
  raises("task", function() coroutine.resume(coroutine.running()) error(select(2, coroutine.resume(coroutine.running()))) end)
  async.await(task)
end)

test("the coroutine of a task that is over is dead", function()
  for _, results in ipairs { {}, { 1 }, { 1, 2, 3 }, { print, print } } do
    local mine
    local task = async.run(function()
      mine = coroutine.running()
      return table.unpack(results)
    end)
    equal(coroutine.status(mine), "dead", #results .. " results")
    local ok = coroutine.resume(mine)
    equal(ok, false)
    pcall(coroutine.close, mine)
    equal(select("#", async.await(task)), #results)
    equal((async.await(task)), results[1])
  end
end)

test("a coroutine that waits inside a task is normal, and others cannot resume or close it", function()
  local co = coroutine.create(function() async.sleep(5) return "v" end)
  local task = async.run(function() return select(2, coroutine.resume(co)) end)
  equal(coroutine.status(co), "normal")
  equal(coroutine.resume(co), false)
  raises("normal", coroutine.close, co)
  equal(async.await(task), "v")
end)

test("running and isyieldable tell the truth", function()
  local co, main = coroutine.running()
  equal(type(co), "thread")
  equal(main, false)
  equal(coroutine.status(co), "running")
  equal(coroutine.isyieldable(), false)
  coroutine.wrap(function()
    equal(coroutine.isyieldable(), true)
    check.truthy(coroutine.running() ~= co, "another coroutine")
    equal(coroutine.status(co), "normal")
  end)()
end)

test("bad arguments to coroutine's functions are refused as Lua does", function()
  for _, name in ipairs { "resume", "status", "close", "isyieldable" } do
    raises("coroutine", coroutine[name], 1)
  end
  raises("function", coroutine.wrap, 1)
  raises("function", coroutine.create)
  raises("dead", coroutine.wrap(function() end) and function() local f = coroutine.wrap(print) f() f() end)
end)

-- --- Through what --------------------------------------------------------------------------------

local function slow(value)
  async.sleep(1)
  return value
end

test("waiting goes through pcall and xpcall", function()
  equal(select(2, pcall(slow, 1)), 1)
  equal(select(2, xpcall(slow, debug.traceback, 2)), 2)
  local ok, err = xpcall(function() slow() error "x" end, function(message) return "handled " .. message end)
  equal(ok, false)
  check.truthy(err:find "handled")
end)

test("waiting goes through metamethods", function()
  local object = setmetatable({}, {
    __index = function() return slow "index" end,
    __newindex = function(t, k, v) rawset(t, k, slow(v)) end,
    __add = function() return slow "add" end,
    __lt = function() return slow(true) end,
    __le = function() return slow(true) end,
    __eq = function() return slow(true) end,
    __concat = function() return slow "concat" end,
    __call = function() return slow "call" end,
    __len = function() return slow(5) end,
    __unm = function() return slow "unm" end,
  })
  equal(object.x, "index")
  object.y = 2
  equal(rawget(object, "y"), 2)
  equal(object + 1, "add")
  equal(object < 1, true)
  equal(object <= 1, true)
  equal(object == setmetatable({}, getmetatable(object)), true)
  equal(object .. "x", "concat")
  equal(object(), "call")
  equal(#object, 5)
  equal(-object, "unm")
end)

test("waiting goes through for-in iterators and <close>, on success and on failure", function()
  for value in function(_, last) return slow(not last and 1 or nil) end do
    equal(value, 1)
  end
  do
    local _ <close> = setmetatable({}, { __close = function() slow() note "closed" end })
  end
  local ok, err = pcall(function()
    local _ <close> = setmetatable({}, { __close = function() slow() note "closed" end })
    error("e", 0)
  end)
  note(ok, err)
  check.notes "closed; closed; false e"
end)

test("<close> of a task's body may wait, when it returns, fails and is closed", function()
  local function body(how)
    local _ <close> = setmetatable({}, { __close = function(_, err)
      async.shield(async.sleep, 2)
      note(how, err)
    end })
    if how == "fails" then
      error("e", 0)
    elseif how == "closed" then
      async.sleep(100)
    end
    return "v"
  end
  equal(async.await(async.run(body, "returns")), "v")
  equal(async.pawait(async.run(body, "fails")), false)
  local task = async.run(body, "closed")
  task:close()
  async.pawait(task)
  check.notes "returns nil; fails e; closed closed"
end)

test("require of a module that awaits while it loads works", function()
  package.preload["slow_module"] = function(name)
    async.sleep(5)
    return { name = name }
  end
  equal(require("slow_module").name, "slow_module")
  equal(require("slow_module"), package.loaded["slow_module"])
  equal(check.elapsed(), 5)
end)

test("dofile and load of chunks that await work", function()
  equal(load("return require('orrery').async.sleep(1) or 'chunk'")(), "chunk")
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write "require('orrery').async.sleep(1) return 'file'"
  file:close()
  local ok, value = pcall(dofile, name)
  os.remove(name)
  equal(value, "file")
  equal(ok, true)
end)

test("where a C function is in the way, the error names it", function()
  raises("gsub", function() string.gsub("a", "a", function() slow() end) end)
  raises("sort", function() table.sort({ 3, 2, 1 }, function(a, b) slow() return a < b end) end)
  raises("tostring", function() tostring(setmetatable({}, { __tostring = function() return slow "x" end })) end)
  raises("concat", function() table.concat(setmetatable({}, { __index = slow, __len = function() return 2 end })) end)
  raises("load", function() load(function() return slow() end) error(select(2, load(function() return slow() end))) end)
end)

test("the C function is named when it was called by pcall", function()
  raises("gsub", function() error(select(2, pcall(string.gsub, "a", "a", function() slow() end)), 0) end)
end)

test("the C function that is named is the one in the way, not one that could wait", function()
  raises("gsub", function() string.gsub("a", "a", function() async.scope(slow) end) end)
  raises("sort", function() table.sort({ 3, 2, 1 }, function() pcall(error) async.move_on_after(5, slow) end) end)
end)

test("a task can wait after a wait was refused", function()
  pcall(string.gsub, "a", "a", function() async.sleep(5) end)
  pcall(string.gsub, "a", "a", function() async.checkpoint() end)
  pcall(string.gsub, "a", "a", function() async.event():wait() end)
  pcall(string.gsub, "a", "a", function() async.await(async.run(async.sleep, 3)) end)
  pcall(string.gsub, "a", "a", function() async.await_any { async.run(async.sleep, 3) } end)
  async.sleep(1)
  equal(check.elapsed(), 1)
end)

test("a condition's wait that is refused keeps the mutex", function()
  local mutex, condition = async.mutex(), async.condition()
  mutex:lock()
  raises("cannot wait", function() string.gsub("a", "a", function() condition:wait(mutex) end) end)
  equal(mutex:is_locked(), true)
  mutex:unlock()
end)
