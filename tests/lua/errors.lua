-- Errors: any value can be one, its identity is kept, the first one wins, and none is lost.

local check = require "check"
local orrery = require "orrery"
local async = orrery.async
local test, equal, note, raises = check.test, check.equal, check.note, check.raises

local function quiet(fn, ...)
  return async.run({ detached = true }, fn, ...)
end

test("any error value keeps its identity, through awaits and through levels of tasks", function()
  local values = { {}, 5, 1.5, true, false, "text", "", print, coroutine.create(print), io.stdout, async.event() }
  for i = 1, #values + 1 do
    local value = values[i]
    local function fails() error(value, 0) end
    local ok, err = async.pawait(async.run(fails))
    equal(ok, false)
    check.truthy(rawequal(err, value), tostring(value))
    local _, deep = async.pawait(async.run(function()
      async.run(function()
        async.run(function() async.sleep(1) fails() end)
        async.sleep(50)
      end)
      async.sleep(50)
    end))
    check.truthy(rawequal(deep, value), "deep " .. tostring(value))
    local _, joined = async.pawait(async.run(function()
      async.run(function() async.sleep(1) fails() end)
    end))
    check.truthy(rawequal(joined, value), "joined " .. tostring(value))
  end
end)

test("error(nil) is an error", function()
  local results = table.pack(async.pawait(async.run(function() error(nil) end)))
  equal(results[1], false)
  equal(results[2], select(2, pcall(error))) -- nil, and a text in Lua 5.5
  equal(results.n, 2)
  local ok = pcall(async.scope, function() async.run(function() async.sleep(1) error(nil) end) end)
  equal(ok, false)
end)

test("the first failure wins, and the others are kept as secondary errors in order", function()
  local function cleanup_fails(name)
    return function()
      local ok = pcall(async.sleep, 100)
      error(name .. tostring(ok), 0)
    end
  end
  local task = quiet(function()
    async.run(cleanup_fails "one ")
    async.run(cleanup_fails "two ")
    async.run(function() async.sleep(1) error("first", 0) end)
  end)
  local ok, err = async.pawait(task)
  equal(ok, false)
  equal(err, "first")
  equal(table.concat(task:errors(), "; "), "first; one false; two false")
end)

test("the error of a body that failed before its children comes first", function()
  local task = quiet(function()
    async.run(function()
      pcall(async.sleep, 100)
      error("cleanup", 0)
    end)
    error("body", 0)
  end)
  equal(select(2, async.pawait(task)), "body")
  equal(table.concat(task:errors(), "; "), "body; cleanup")
end)

test("a body that answers a child's failure with another error keeps both", function()
  local task = quiet(function()
    async.run(function() async.sleep(1) error("child", 0) end)
    pcall(async.sleep, 50)
    error("body", 0)
  end)
  equal(select(2, async.pawait(task)), "body")
  equal(table.concat(task:errors(), "; "), "body; child")
end)

test("a failure that is caught is gone", function()
  async.run(function() async.sleep(1) error("child", 0) end)
  raises("child", async.sleep, 50)
  async.sleep(5)
  equal(#async.current():errors() <= 1, true)
end)

test("a child that fails at once interrupts the parent's next wait", function()
  async.run(function() error("at once", 0) end)
  note "goes on"
  raises("at once", async.sleep, 50)
  equal(check.elapsed(), 0)
end)

test("a child that was awaited by a sibling does not fail its parent", function()
  local bad = async.run(function() async.sleep(2) error("bad", 0) end)
  local other = async.run(function() return async.pawait(bad) end)
  async.sleep(5)
  equal(async.await(other), false)
end)

test("a closed child never fails its parent", function()
  local child = async.run(async.sleep, 100)
  child:close()
  async.sleep(1)
  local ok, err = async.pawait(child)
  equal(ok, false)
  equal(err, "closed")
  equal(#child:errors(), 0)
end)

test("a failure in the cleanup of a closed child is not lost", function()
  local child
  local ok, err = pcall(function()
    child = async.run(function() pcall(async.sleep, 100) error("cleanup", 0) end)
    child:close()
    async.sleep(1)
  end)
  note(ok, err)
  equal(table.concat(child:errors()), "cleanup")
end)

test("errors can be asked for as long as there is a handle", function()
  local task = quiet(function() async.sleep(1) error("kept", 0) end)
  async.pawait(task)
  async.sleep(10)
  equal(select(2, async.pawait(task)), "kept")
  equal(table.concat(task:errors()), "kept")
end)

test("a task keeps its name when it is done", function()
  local task = async.run("worker", function() end)
  equal(task.name, "worker")
  check.truthy(tostring(task):find("worker", 1, true))
end)

-- --- Tracebacks ----------------------------------------------------------------------------------

test("a traceback names the file, the line and the tasks", function()
  local task = async.run("outer", function()
    async.run("inner", function()
      coroutine.wrap(function() async.sleep(1) note(async.current():traceback "why") end)()
    end)
    async.sleep(5)
  end)
  local waiting = task:traceback()
  check.truthy(waiting:find("outer", 1, true), waiting)
  check.truthy(waiting:find("errors.lua:%d+"), waiting)
  async.await(task)
  equal(task:traceback "done":sub(1, 4), "done")
end)

test("the traceback of a failed task tells where the error was raised", function()
  local task = quiet(function() async.sleep(1) local object = {} error(object) end)
  async.pawait(task)
  check.truthy(task:traceback("m"):find("errors.lua:%d+"), task:traceback "m")
end)

-- Returns the report of a task that has failed, without the lines that say where it was made.
local function report_of(task)
  async.pawait(task)
  return (task:traceback():gsub(", created at [^\n]*", ""))
end

-- Fails unless the words are in the text, in this order.
local function in_order(text, words)
  local at = 1
  for _, word in ipairs(words) do
    local first, last = text:find(word, at, true)
    check.truthy(first, ("'%s' should come next in: %s"):format(word, text))
    at = last
  end
end

local function deep_error(value)
  error(value, 0)
end

test("the report of an awaited error begins with the stack of the task that raised it", function()
  for _, value in ipairs { "text", { code = 1 } } do
    for _, wait in ipairs {
      function(task) async.await(task) end,
      function(task) async.await_all { task } end,
      function(task) async.await_any { task } end,
      function(task) async.timeout(1000, task) end,
      function(task) async.with_timeout(1000, async.await, task) end,
      function(task) async.scope(function() async.await(task) end) end,
      function(task) task:wait() end,
      function(task) task:wait(1000) end,
      function(task)
        local _, err = pcall(async.await, task)
        async.sleep(1)
        error(err, 0)
      end,
    } do
      local failed = async.run({ name = "waiter", detached = true }, function()
        local child = async.run("child", function() async.sleep(1) deep_error(value) end)
        wait(child)
      end)
      in_order(report_of(failed), { "in upvalue 'deep_error'", "task 'child'\n", "task 'waiter' awaited it\n" })
    end
  end
end)

test("the report shows every task that awaited the error", function()
  local function level(n)
    if n == 0 then
      deep_error "bottom"
    end
    async.await(async.run("level " .. n - 1, level, n - 1))
  end
  in_order(report_of(async.run({ name = "level 3", detached = true }, level, 3)), {
    "in upvalue 'deep_error'", "task 'level 0'\n", "task 'level 1' awaited it\n", "task 'level 2' awaited it\n",
    "task 'level 3' awaited it\n",
  })
end)

test("the report of an error that came through very many tasks is short", function()
  local function level(n)
    if n == 0 then
      deep_error "bottom"
    end
    async.await(async.run("level " .. n - 1, level, n - 1))
  end
  local report = report_of(async.run({ name = "level 2000", detached = true }, level, 2000))
  in_order(report, { "task 'level 0'", "task 'level 4' awaited it", "... (1991 more tasks)", "task 'level 1996' awaited it",
    "task 'level 2000' awaited it" })
  check.truthy(#report < 8192, #report)
end)

test("the report names a task between that failed because of its child", function()
  local failed = async.run({ name = "top", detached = true }, function()
    async.await(async.run("middle", function()
      async.run("child", function() async.sleep(1) deep_error "x" end)
    end))
  end)
  in_order(report_of(failed), { "'deep_error'", "task 'child'", "task 'middle' failed because of it", "task 'top' awaited it" })
end)

test("an error of a task's own is not taken for one that it awaited before", function()
  local function fails() error "same" end
  local failed = async.run({ name = "top", detached = true }, function()
    async.pawait(async.run("child", fails))
    fails()
  end)
  local report = report_of(failed)
  check.truthy(not report:find("child", 1, true), report)
end)

test("async.traceback tells a message handler where an error came from", function()
  local _, text = xpcall(function()
    async.await(async.run("child", function() deep_error "x" end))
  end, async.traceback)
  in_order(text, { "x\n", "in upvalue 'deep_error'", "task 'child'", "awaited it\n", "in function 'xpcall'" })
  _, text = xpcall(deep_error, async.traceback, { code = 5 })
  in_order(text, { "{ code = 5 }\n", "in function <" })
  check.truthy(not text:find("child", 1, true), text)
  raises("bad argument #1", async.traceback)
  raises("bad argument #2", async.traceback, "x", -1)
end)

test("a failure that was awaited and caught leaves nothing behind", function()
  local left = setmetatable({}, { __mode = "v" })
  for i = 1, 100 do
    local task = async.run({ name = "child", detached = i % 2 == 0 }, function() error { i } end)
    local _, err = async.pawait(task)
    left[2 * i], left[2 * i + 1] = task, err
  end
  for _ = 1, 4 do
    async.sleep(1)
    collectgarbage()
  end
  equal(next(left), nil)
end)

test("an error that is a table is shown with its fields, some of them", function()
  local function text_of(value)
    return (async.traceback(value):gsub("\nstack traceback:.*", ""))
  end
  equal(text_of { code = "ENOENT", message = 'a "b"\n', [3] = true, 1.5, 2 }, '{ 1.5, 2, true, code = "ENOENT", message = "a \\"b\\"\\n" }')
  equal(text_of {}, "{}")
  equal(text_of { { { { 1 } } } }, "{ { { { ... } } } }")
  local cycle = { name = "x" }
  cycle.self = cycle
  equal(text_of(cycle), '{ name = "x", self = <cycle> }')
  equal(text_of(setmetatable({ a = 1 }, { __name = "Problem" })), "Problem { a = 1 }")
  equal(text_of(setmetatable({}, { __index = error, __pairs = error, __len = error })), "{}")
  local many = {}
  for i = 1, 1000 do many[i], many["k" .. i] = ("x"):rep(1000), many end
  check.truthy(#text_of(many) <= 1100, #text_of(many))
  equal(text_of { print = print }, "{ print = <function> }")
end)

test("tables that are large without fields are not all searched for the text of an error", function()
  local large = {}
  for i = 1, 262144 do large[i] = i end
  for i = 1, 262144 do large[i] = nil end
  local rows = {}
  for i = 1, 16 do
    rows[i] = {}
    for k = 1, 16 do rows[i][k] = large end
  end
  local text = async.traceback(rows)
  check.truthy(text:find("{}", 1, true) and text:find("{ ... }", 1, true), text)
end)

test("an error's __tostring is used if it answers a string, in time", function()
  local function text_of(words)
    return (async.traceback(setmetatable({ n = 1 }, { __tostring = words })):gsub("\nstack traceback:.*", ""))
  end
  equal(text_of(function(self) return "number " .. self.n end), "number 1")
  local fields = "{ n = 1 } (its __tostring failed)"
  equal(text_of(function() error "no" end), fields)
  equal(text_of(function() return {} end), fields)
  equal(text_of(function() async.sleep(1) return "late" end), fields)
  equal(text_of(function() while true do end end), fields)
  equal(text_of(function() local function f() return 1 + f() end return f() end), fields)
end)

test("a traceback from inside a coroutine shows both stacks", function()
  local text
  local function inside_coroutine() text = async.current():traceback() return text end
  local function around() coroutine.wrap(function() local r = inside_coroutine() return r end)() end
  around()
  check.truthy(text:find("inside_coroutine", 1, true), text)
  check.truthy(text:find("around", 1, true), text)
end)

test("a stack overflow in a task is an error like others", function()
  local function forever(n) return 1 + forever(n) end
  local ok, err = async.pawait(async.run(forever, 1))
  equal(ok, false)
  check.truthy(tostring(err):find "overflow", err)
end)

-- --- Errors in odd places ------------------------------------------------------------------------

test("an observer is told the outcome, and its own error has no effect", { errors = true }, function()
  local object = {}
  local good = async.run(function() async.sleep(1) return 1, nil, 3 end)
  good:on_complete(function(...) note("good", select("#", ...), ...) end)
  good:on_complete(function() error("in the observer, on purpose", 0) end)
  good:on_complete(function() async.sleep(1) note "an observer may wait" end)
  local bad = quiet(function() async.sleep(2) error(object) end)
  bad:on_complete(function(err) note(err == object) end)
  async.pawait(bad)
  async.sleep(5)
  good:on_complete(function(err, value) note("late", err, value) end)
  async.sleep(1)
  check.notes "good 4 nil 1 nil 3; an observer may wait; true; late nil 1"
end)

test("an error in __close replaces the body's, as in Lua", function()
  local task = quiet(function()
    local _ <close> = setmetatable({}, { __close = function(_, err) note(err) error("close", 0) end })
    error("body", 0)
  end)
  equal(select(2, async.pawait(task)), "close")
  check.notes "body"
end)

test("an error in __close of a closed task is its failure", function()
  local task = quiet(function()
    local _ <close> = setmetatable({}, { __close = function() error("close", 0) end })
    async.sleep(100)
  end)
  task:close()
  equal(select(2, async.pawait(task)), "close")
end)

test("an error in __gc has no effect", function()
  warn "@off"
  for _ = 1, 100 do
    setmetatable({}, { __gc = function() error "gc" end })
    setmetatable({}, { __gc = function() async.sleep(1) end })
    setmetatable({}, { __gc = function() quiet(function() async.sleep(1) end) end })
  end
  collectgarbage()
  async.sleep(5)
  collectgarbage()
end)

test("an error value whose __tostring fails, waits, or answers no string is kept as it is", function()
  for _, answer in ipairs { error, function() async.sleep(1) end, function() return 5 end,
    function(self) return tostring(self) end } do
    local object = setmetatable({}, { __tostring = answer })
    local ok, err = async.pawait(quiet(function() error(object) end))
    equal(ok, false)
    check.truthy(rawequal(err, object), "the same")
  end
end)

test("a failure observed before the next wait does not interrupt it, however many slices pass", function()
  local task = quiet(function() error("x", 0) end)
  local start = os.clock()
  repeat until os.clock() - start > 0.02
  equal(select(2, async.pawait(task)), "x")
end)

test("an error in a message handler is Lua's own affair", function()
  local ok = async.await(async.run(function()
    return xpcall(error, function() error "again" end)
  end))
  equal(ok, false)
end)

test("a child that fails inside a coroutine's wait is raised in there", function()
  async.run(function() async.sleep(1) error("child", 0) end)
  local ok, err = coroutine.resume(coroutine.create(function() async.sleep(50) end))
  equal(ok, false)
  equal(err, "child")
end)

-- --- detach and complete -------------------------------------------------------------------------

test("detaching a failed task takes its failure from the parent", function()
  local task = async.run(function() error("detached", 0) end)
  task:detach()
  async.sleep(1)
  equal(select(2, async.pawait(task)), "detached")
end)

test("a detached task outlives its parent", function()
  local inner
  async.await(async.run(function()
    inner = async.run(function() async.sleep(10) return "v" end)
    inner:detach()
  end))
  equal(check.elapsed(), 0)
  equal(async.await(inner), "v")
end)

test("complete gives a waiting task its results, and closes its body", function()
  local task = async.run(function()
    local _ <close> = setmetatable({}, { __close = function() note "closed" end })
    async.sleep(100)
  end)
  task:complete(1, nil, 3)
  local values = table.pack(async.await(task))
  equal(values.n, 3)
  equal(values[3], 3)
  check.notes "closed"
  raises("completed already", task.complete, task)
end)

test("complete with none or one, of itself, and of a body that is over", function()
  local none = async.run(async.sleep, 100)
  none:complete()
  equal(select("#", async.await(none)), 0)
  equal(async.await(async.run(function() async.current():complete "self" pcall(async.sleep, 1) return "body" end)), "self")
  local joining = async.run(function() async.run(async.sleep, 100) return 1, 2 end)
  joining:complete("given", 2, 3)
  equal(async.await(joining), "given")
end)

test("complete of a task that has failed and still cleans up is refused", function()
  local task = quiet(function()
    async.run(function() pcall(async.sleep, 50) async.shield(async.sleep, 5) end)
    error("failed", 0)
  end)
  raises("completed already", task.complete, task, 1)
  equal(select(2, async.pawait(task)), "failed")
end)

test("where a task was made is remembered when debugging", function()
  async.debug(true)
  local task = async.run("made here", async.sleep, 1)
  async.debug(false)
  local other = async.run("made there", async.sleep, 1)
  check.truthy(task:traceback():find "'made here', created at .*errors.lua:%d+", task:traceback())
  check.truthy(not other:traceback():find "'made there', created", other:traceback())
end)

-- The names of the tasks in a traceback, in order.
local function names_in(text)
  local names = {}
  for name in text:gmatch "\ntask '([^']*)'" do
    names[#names + 1] = name
  end
  return table.concat(names, " ")
end

test("a traceback shows the tasks that a task waits for, the farthest first, and those above it", function()
  local function innermost() async.sleep(100) end
  local outer = async.run("outer", function()
    async.await(async.run("middle", function()
      async.await(async.run("inner", innermost))
    end))
  end)
  local text = outer:traceback("here")
  equal(names_in(text):gsub(" a traceback.*", ""), "inner middle outer")
  check.truthy(text:find("task 'inner'.-, awaited by 'middle'\nstack traceback:.-'sleep'"), text)
  equal(text:sub(1, 4), "here")
end)

test("a traceback shows all tasks of a list, the children of a scope, and of a body that is over", function()
  local both = async.run("both", function()
    async.await_all { async.run("one", async.sleep, 10), async.run("two", async.sleep, 20) }
  end)
  check.truthy(names_in(both:traceback()):find "^two one both", both:traceback())
  async.sleep(15)
  check.truthy(names_in(both:traceback()):find "^two both", both:traceback())
  local scope = async.run("scope", function() async.scope(async.run, "inside", async.sleep, 10) end)
  check.truthy(names_in(scope:traceback()):find "^inside scope", scope:traceback())
  local over = async.run("over", function() async.run("child", async.sleep, 10) end)
  check.truthy(names_in(over:traceback()):find "^child over", over:traceback())
end)

test("a traceback of tasks that wait for each other, or for very many, has an end", function()
  local first, second
  local release = async.event()
  first = async.run("first", function() release:wait() pcall(async.await, second) end)
  second = async.run("second", function() release:wait() pcall(async.await, first) end)
  release:set()
  async.checkpoint()
  async.checkpoint()
  check.truthy(names_in(first:traceback()):find "^second first", first:traceback())
  first:close()
  local many = async.run("many", function()
    for _ = 1, 100 do async.run("child", async.sleep, 10) end
  end)
  local text = many:traceback()
  check.truthy(text:find("... and more tasks that are waited for", 1, true), text)
  equal(select(2, text:gsub("task 'child'", "")), 15)
  local function nest(n)
    if n > 0 then async.await(async.run("level" .. n, nest, n - 1)) else async.sleep(10) end
  end
  text = async.run("deep", nest, 50):traceback()
  check.truthy(text:find("'level50'", 1, true) and not text:find("'level20'", 1, true), text)
end)

-- --- misuse --------------------------------------------------------------------------------------

test("an argument error names the caller's line and the called function", function()
  local task = async.run(async.sleep, 1)
  for expected, fn in pairs {
    ["errors.lua:%d+: async.await_all: expected a list of tasks, got nil"] = function() async.await_all(nil) end,
    ["errors.lua:%d+: async.await_any: expected a list of tasks, got a task"] = function() async.await_any(task) end,
    ["errors.lua:%d+: async.iter: .*item 1"] = function() async.iter({ 1 }) end,
    ["errors.lua:%d+: async.timeout: expected a task, got function"] = function() async.timeout(10, print) end,
    ["errors.lua:%d+: mutex:with: expected a function, got nil"] = function() async.mutex():with() end,
    ["errors.lua:%d+: task:wait: expected milliseconds, got string"] = function() task:wait("a") end,
    ["errors.lua:%d+: task:wait: expected a task before the colon, got nil"] = function() task.wait() end,
    ["errors.lua:%d+: schedule_wrap: expected a function, got number"] = function() orrery.schedule_wrap(3) end,
  } do
    local err = raises(nil, fn)
    check.truthy(err:find(expected), err)
  end
end)
