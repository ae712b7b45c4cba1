-- Workers: every function of the API, on any clock.  worker_clean.lua tests what jobs leave behind,
-- channel.lua tests channels.
local check = require "check"
local orrery = require "orrery"
local async, loop, worker = orrery.async, orrery.loop, orrery.worker
local test, equal, raises, truthy, note = check.test, check.equal, check.raises, check.truthy, check.note

-- Starts a job whose callback completes a future with everything it is told.
local function outcome_of(w, ...)
  local future = async.future()
  local arguments = table.pack(...)
  arguments[arguments.n + 1] = function(...)
    future:complete(nil, table.pack(...))
  end
  assert(w:run(table.unpack(arguments, 1, arguments.n + 1)))
  return async.await(future)
end

-- A job whose caller has its result may still be on its way out of the pool.
local function settle(pool)
  while (pool and pool:stats() or worker.stats()).running > 0 do
    async.sleep(1)
  end
end

-- --- New -----------------------------------------------------------------------------------------

test("a worker is made of a text", function()
  equal(worker.new("return 1 + 1"):call(), 2)
  equal(worker.new(""):call(), nil)
end)

test("a worker is made of a function that uses nothing but globals", function()
  equal(worker.new(function(x) return math.abs(x) end):call(-3), 3)
  equal(worker.new(function(...) return select("#", ...) end):call(nil, nil), 2)
  equal(select("#", worker.new(function() end):call()), 0)
end)

test("a text may end in a comment, and holds no way out of it", function()
  equal(worker.new("return ... -- the end"):call(5), 5)
  raises("'end'", worker.new, "return 1 end) error('out') (function()")
end)

test("a function with variables of the code around it is refused, and they are named", function()
  local outer = 1
  local err = raises("'outer'", worker.new, function() return outer end)
  truthy(err:find("pass it as an argument", 1, true), err)
  raises("'outer'", worker.new, function() return print(outer) end)
end)

test("a function written in C is refused", function()
  raises("a function written in C cannot be given to a worker", worker.new, print)
end)

test("a syntax error is raised when the worker is made, with its line", function()
  local err = raises(":3:", worker.new, "local x = 1\nlocal y = 2\nreturn x +* y\n")
  truthy(err:find("unexpected symbol near '*'", 1, true), err)
  local _
  _, err = pcall(function() worker.new "return +" end)
  truthy(err:find("^%[worker .*worker%.lua:%d+%]:1:"), err)
end)

test("an invalid script is an error that says what was expected", function()
  for _, wrong in ipairs { 5, true, {}, async.event() } do
    raises("worker.new: expected a script (a string of Lua or a function), got " .. type(wrong), worker.new, wrong)
  end
  raises("got nil", worker.new)
end)

test("bytes that are not text are refused: a function is given as one", function()
  raises("attempt to load a binary chunk", worker.new, string.dump(function() end))
end)

test("options are checked, and the error names the wrong one", function()
  raises("worker.new: unknown option 'nmae'", worker.new, "", { nmae = "x" })
  raises("worker.new: expected a table of options, got string", worker.new, "", "x")
  raises("option timeout: expected milliseconds, at least 0, got -1", worker.new, "", { timeout = -1 })
  raises("option timeout: expected milliseconds, at least 0, got string", worker.new, "", { timeout = "1" })
  raises("at least 0, got ", worker.new, "", { timeout = 0 / 0 })
  raises("option modules: m: expected a script (a string of Lua or a function), got number", worker.new, "", { modules = { m = 1 } })
  raises("option modules: expected the name of a module, got number", worker.new, "", { modules = { "m" } })
  raises("option modules: expected a table", worker.new, "", { modules = "m" })
  raises("option name: expected a string, got table", worker.new, "", { name = {} })
end)

test("messages name a script by its option, or by where it was created", function()
  local err = raises("", function() worker.new("error 'x'", { name = "sums" }):call() end)
  truthy(err:find("^sums:1: x"), err)
  err = raises("", function() worker.new("error 'x'"):call() end)
  truthy(err:find("^%[worker .*worker%.lua:%d+%]:1: x"), err)
end)

-- --- Call ----------------------------------------------------------------------------------------

test("any number of arguments and results, nils among them and at the ends", function()
  local echo = worker.new "return ..."
  for _, values in ipairs { table.pack(), table.pack(nil), table.pack(1, nil, 3, nil), table.pack(nil, false, nil) } do
    local got = table.pack(echo:call(table.unpack(values, 1, values.n)))
    equal(got.n, values.n)
    for i = 1, values.n do equal(got[i], values[i]) end
  end
  local many = {}
  for i = 1, 5000 do many[i] = i end
  local got = table.pack(echo:call(table.unpack(many)))
  equal(got.n, 5000)
  equal(got[5000], 5000)
end)

test("values are copied by type", function()
  local echo = worker.new "return ..."
  equal(math.type(echo:call(3)), "integer")
  equal(math.type(echo:call(3.0)), "float")
  local nan = echo:call(0 / 0)
  truthy(nan ~= nan)
  equal(echo:call("a\0b\255"), "a\0b\255")
  equal(echo:call(math.mininteger), math.mininteger)
  equal(echo:call { list = { 1, { x = "y" } } }.list[2].x, "y")
end)

test("a value that cannot be copied is named by its path, in both directions", function()
  local echo = worker.new "return ..."
  raises("worker:call: args.items[3].callback: a function cannot be copied", function()
    echo:call { items = { 1, 2, { callback = print } } }
  end)
  raises("results[2].a[1]: a function cannot be copied", function()
    worker.new("return 1, { a = { print } }"):call()
  end)
  local err = select(2, pcall(echo.run, echo, print, function() end))
  truthy(err:find("worker:run: args: a function cannot be copied", 1, true), err)
  equal(echo:pending(), 0)
end)

test("call waits in a task, and only there", function()
  local w = worker.new "return 1"
  local co = coroutine.wrap(function() return w:call() end)
  equal(co(), 1) -- in a coroutine of the task
  raises("worker:call: expected a worker before the colon, got nil", w.call)
  raises("worker:call: expected a worker before the colon, got table", w.call, {})
end)

test("the last table is options if it has a timeout and nothing else, and an argument otherwise", function()
  local count = worker.new "return select('#', ...)"
  equal(count:call({ timeout = 60000 }), 0)
  equal(count:call(1, { timeout = 60000 }), 1)
  equal(count:call({ timeout = 60000, x = 1 }), 1)
  equal(count:call({ timeout = 60000 }, 1), 2)
  equal(count:call({ timeout = 60000 }, {}), 2)
  equal(count:call({ timeout = 60000 }, { timeout = 60000 }), 1)
  raises("option timeout: expected milliseconds, at least 0, got string", function() count:call { timeout = "x" } end)
end)

local broken = [[
  local function inner() error "broken" end
  local function outer() inner() end
  outer()
]]

test("an error of the worker is raised in the caller unchanged", function()
  equal(raises("", function() worker.new(broken, { name = "job" }):call() end), "job:1: broken")
end)

test("the report of a worker's error begins with the job's stack", function()
  for _, script in ipairs { broken, (broken:gsub('"broken"', '{ code = "broken" }')) } do
    local failed = async.run("caller", function() worker.new(script, { name = "job" }):call() end)
    async.pawait(failed)
    local report = failed:traceback()
    local job = report:find("job:1: in upvalue 'inner'\n\tjob:2: in local 'outer'", 1, true)
    local caller = report:find("in a job of a worker\ntask 'caller' awaited it", 1, true)
    truthy(job and caller and job < caller, report)
  end
end)

test("errors that are not strings arrive unchanged", function()
  local err = raises(nil, function() worker.new("error { code = 7 }"):call() end)
  equal(err.code, 7)
  equal(select(2, pcall(function() worker.new("error(nil)"):call() end)), select(2, pcall(error)))
  equal(raises(nil, function() worker.new("error(false)"):call() end), false)
  equal(raises(nil, function() worker.new("error(12)"):call() end), 12)
  raises("error.x: a function cannot be copied", function() worker.new("error { x = print }"):call() end)
  raises("mine", function()
    worker.new("error(setmetatable({}, { __tostring = function() return 'mine' end }))"):call()
  end)
end)

test("a caller that is cancelled cancels its job", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  local task = async.run({ detached = true }, function() w:call() end)
  equal(w:pending(), 1)
  task:close()
  equal(w:pending(), 0)
  settle()
end)

test("a caller is cancelled by its own time-outs, and goes on after them", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  local over = async.move_on_after(20, function() w:call() return "called" end)
  truthy(over ~= "called")
  equal(check.elapsed() >= 20, true)
  raises("timeout", async.with_timeout, 20, function() w:call() end)
  settle()
  equal(w:pending(), 0)
end)

-- --- Run -----------------------------------------------------------------------------------------

test("run calls back with the results, and answers at once", function()
  local got = outcome_of(worker.new "return 1, nil, ...", "x", nil)
  equal(got.n, 4)
  equal(got[1], 1)
  equal(got[3], "x")
end)

test("run takes its callback alone, after arguments, or in a table of options", function()
  local w = worker.new "return select('#', ...), ..."
  equal(outcome_of(w)[1], 0)
  equal(outcome_of(w, 5)[2], 5)
  local future = async.future()
  w:run({ x = 1 }, 2, { callback = function(...) future:complete(nil, table.pack(...)) end, timeout = 60000 })
  local got = async.await(future)
  equal(got[1], 2)
  equal(got[2].x, 1)
end)

test("run refuses a missing callback and unknown options", function()
  local w = worker.new ""
  local text = "worker:run: expected a callback, or a table with one, as the last argument, got "
  raises(text .. "nothing", w.run, w)
  raises(text .. "number", w.run, w, 5)
  raises(text .. "a table without one", w.run, w, { timeout = 1 })
  raises(text .. "nil", w.run, w, nil)
  raises("worker:run: unknown option 'timeuot'", w.run, w, { callback = print, timeuot = 1 })
  raises("worker:run: option timeout: expected milliseconds, at least 0, got -5", w.run, w, { callback = print, timeout = -5 })
  equal(w:pending(), 0)
end)

test("the callback of a failed job gets nil, the error, and its report", function()
  local got = outcome_of(worker.new("error 'broken'", { name = "job" }))
  equal(got[1], nil)
  equal(got[2], "job:1: broken")
  truthy(got[3]:find("stack traceback:", 1, true), got[3])
  got = outcome_of(worker.new "error { code = 3 }")
  equal(got[2].code, 3)
end)

test("the callback may wait, and the job outlives the task that called run", function()
  local done = async.event()
  async.await(async.run(function()
    worker.new("return 5"):run(function(value)
      async.sleep(5)
      note(value)
      done:set()
    end)
  end))
  done:wait()
  check.notes "5"
end)

test("run works outside of tasks too, and answers the task that will call back", function()
  local future = async.future()
  local w = worker.new "return 'ran'"
  loop.set_timeout(0, function()
    future:complete(nil, w:run(function(value) note(value) end))
  end)
  local task = async.await(future)
  async.await(task)
  check.notes "ran"
end)

-- --- Cancel and close ----------------------------------------------------------------------------

test("cancel ends a waiting job, and its callback is not called", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  local task = w:run(function() note "called" end)
  equal(w:pending(), 1)
  equal(w:cancel(), 1)
  async.await(task)
  equal(w:cancel(), 0)
  settle()
  check.notes ""
  equal(w:pending(), 0)
end)

test("cancel ends an endless loop that catches errors, and frees its thread", function()
  local pool = worker.pool { size = 1 }
  for _, script in ipairs {
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function again() return again() end again()",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local t = setmetatable({}, { __index = function() while true do end end }) return t.x",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.wrap(function() pcall(error) end)() end",
    "table.sort({ 3, 2, 1 }, function() while true do end end)",
    "local _ <close> = setmetatable({}, { __close = function() while true do end end }) while true do end",
  } do
    local w = pool:new(script)
    w:run(function() note "called" end)
    while pool:stats().running == 0 do async.checkpoint() end
    equal(w:cancel(), 1)
    equal(pool:new("return 'free'"):call(), "free")
  end
  check.notes ""
end)

test("cancel ends a loop inside a function that cannot be suspended", function()
  local pool = worker.pool { size = 1 }
  local began = worker.channel(1)
  for _, script in ipairs {
    "(...):send(1) table.sort({ 3, 2, 1 }, function() while true do end end)",
    "(...):send(1) while true do pcall(string.gsub, 'x', 'x', function() while true do end end) end",
  } do
    local w = pool:new(script)
    local call = async.run(function() return pcall(w.call, w, began) end)
    equal(began:receive(), 1)
    equal(w:cancel(), 1)
    equal(pool:new("return 'free'"):call(), "free")
    async.await(call)
  end
end)

test("cancel tells the callback, by option", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  local future = async.future()
  w:run { cancelled = true, callback = function(...) future:complete(nil, table.pack(...)) end }
  w:cancel()
  local got = async.await(future)
  equal(got[1], nil)
  equal(got[2], "cancelled")
  equal(got.n, 2)
end)

test("cancel removes a queued job, and the others go on", function()
  local pool = worker.pool { size = 1 }
  local first, second = pool:new "return (...):receive()", pool:new "return 'second'"
  local gate = worker.channel(1)
  local one = async.run(function() return first:call(gate) end)
  second:run(function() note "called" end)
  local three = async.run(function() return pool:new("return 'third'"):call() end)
  equal(pool:stats().waiting, 2)
  equal(second:cancel(), 1)
  equal(pool:stats().waiting, 1)
  gate:send "first"
  equal(async.await(one), "first")
  equal(async.await(three), "third")
  settle(pool)
  check.notes ""
end)

test("a call that is cancelled by its worker says so", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  local task = async.run(function() return pcall(w.call, w) end)
  w:cancel()
  local ok, err = async.await(task)
  equal(ok, false)
  equal(err, "cancelled")
end)

test("a job that is cancelled may clean up, and that is bounded", function()
  local said = worker.channel(10)
  local w = worker.new [[
    local said, how = ...
    local async = require "orrery".async
    local _ <close> = setmetatable({}, { __close = function()
      said:try_send "closing"
      async.shield(function()
        async.sleep(how)
        said:try_send "closed"
      end)
    end })
    said:send "begun"
    async.sleep(1e12)
  ]]
  w:run(said, 10, function() end)
  equal(said:receive(), "begun")
  w:cancel()
  equal(said:receive(), "closing")
  equal(said:receive(), "closed")
  w:run(said, 1e12, function() end)
  equal(said:receive(), "begun")
  w:cancel()
  equal(said:receive(), "closing")
  settle()
  equal(#said, 0)
end)

test("a worker that is closed cancels its jobs and takes no more", function()
  local w = worker.new "require 'orrery'.async.sleep(1e12)"
  w:run(function() note "called" end)
  w:close()
  raises("worker:call: the worker is closed", w.call, w)
  raises("worker:run: the worker is closed", w.run, w, print)
  w:close()
  settle()
  check.notes ""
  local kept
  do
    local scoped <close> = worker.new "return 1"
    kept = scoped
    equal(scoped:call(), 1)
  end
  raises("the worker is closed", kept.call, kept)
end)

-- --- Time-outs -----------------------------------------------------------------------------------

test("a time-out is exact by the runtime's clock, and the callback gets nil and 'timeout'", function()
  -- No stall of the machine comes near: the limit also holds for the time that the job computes.
  local limit = check.virtual and 60000 or 250
  local w = worker.new("require 'orrery'.async.sleep(1e12)", { timeout = limit })
  local got = outcome_of(w)
  equal(got[1], nil)
  equal(got[2], "timeout")
  truthy(check.elapsed() >= limit and (not check.virtual or check.elapsed() == limit), check.elapsed())
  raises("timeout", w.call, w, { timeout = limit // 5 })
  truthy(not check.virtual or check.elapsed() == limit + limit // 5, check.elapsed())
  settle()
end)

test("the usual time-out is five minutes", function()
  if not check.virtual then return end
  equal(outcome_of(worker.new "require 'orrery'.async.sleep(1e12)")[2], "timeout")
  equal(check.elapsed(), 300000)
end)

test("a job that ends just before its timeout succeeds", function()
  if not check.virtual then return end
  local w = worker.new "require 'orrery'.async.sleep(...) return 'in time'"
  equal(w:call(59999, { timeout = 60000 }), "in time")
  equal(check.elapsed(), 59999)
  equal(select(2, pcall(w.call, w, 60001, { timeout = 60000 })), "timeout")
end)

test("a job that computes beyond its time is ended, and says 'timeout'", function()
  local w = worker.new "while true do end"
  local ok, err = pcall(w.call, w, { timeout = 30 })
  equal(ok, false)
  equal(err, "timeout")
  local future = async.future()
  w:run { timeout = 30, callback = function(...) future:complete(nil, table.pack(...)) end }
  local got = async.await(future)
  equal(got[1], nil)
  equal(got[2], "timeout")
end)

test("a time-out of 0 and of for ever", function()
  local w = worker.new "return ..."
  equal(w:call(5, { timeout = math.huge }), 5)
  local ok, err = pcall(worker.new("while true do end").call, worker.new "while true do end", { timeout = 0 })
  equal(ok, false)
  equal(err, "timeout")
end)

test("the time in the queue counts", function()
  local pool = worker.pool { size = 1 }
  local gate = worker.channel(0)
  local first = async.run(function() return pool:new("return (...):receive()"):call(gate) end)
  raises("timeout", function() pool:new("return 1"):call { timeout = 40 } end)
  equal(pool:stats().waiting, 0)
  gate:send "go"
  equal(async.await(first), "go")
end)

-- --- Inside a job --------------------------------------------------------------------------------

test("a script has async, loop and schedule, and its job is done when all that it began is", function()
  local out = worker.channel(10)
  local w = worker.new [[
    local orrery, out = require "orrery", ...
    local async, loop = orrery.async, orrery.loop
    async.run(function() async.sleep(30) out:send "child" end)
    async.run({ detached = true }, function() async.sleep(40) out:send "detached" end)
    loop.set_timeout(20, function() out:send "timer" end)
    orrery.schedule(function() out:send "scheduled" end)
    return "returned"
  ]]
  equal(w:call(out), "returned")
  truthy(check.elapsed() >= 40)
  local said = {}
  for i = 1, 4 do said[i] = out:try_receive() end
  equal(table.concat(said, " "), "scheduled timer child detached")
end)

test("a timer that is closed in time does not keep its job", function()
  local w = worker.new [[
    local loop = require "orrery".loop
    local timer = loop.new_timer()
    local count = 0
    timer:start(10, 10, function()
      count = count + 1
      if count == 5 then timer:close() end
    end)
    return "begun"
  ]]
  equal(w:call(), "begun")
  truthy(check.elapsed() >= 50)
end)

test("an unobserved failure fails the job and cancels its other tasks", function()
  raises("stray", function()
    worker.new([[
      local async = require "orrery".async
      async.run({ detached = true }, function() async.sleep(5) error "stray" end)
      async.sleep(1e12)
    ]]):call()
  end)
  raises("in a callback", function()
    worker.new("require 'orrery'.schedule(function() error 'in a callback' end)"):call()
  end)
  raises("in a timer", function()
    worker.new("require 'orrery'.loop.set_timeout(5, function() error 'in a timer' end)"):call()
  end)
  raises("in a child", function()
    worker.new("require 'orrery'.async.run(function() error 'in a child' end)"):call()
  end)
end)

test("a failing script cancels its tasks, and its own error is the job's", function()
  local out = worker.channel(1)
  raises("the script's", function()
    worker.new([[
      local orrery, out = require "orrery", ...
      local async = orrery.async
      async.run({ detached = true }, function()
        local _ <close> = setmetatable({}, { __close = function() out:try_send "cancelled" end })
        async.sleep(1e12)
      end)
      orrery.loop.set_timeout(1e9, function() end)
      error "the script's"
    ]]):call(out)
  end)
  equal(out:try_receive(), "cancelled")
end)

test("a script has no events, no workers, no way to end the program or change its locale", function()
  equal(worker.new("return require 'orrery'.events == nil and require 'orrery'.worker == nil"):call(), true)
  raises("os.exit: a worker cannot end the program; return, or raise an error", function()
    worker.new("os.exit(3)"):call()
  end)
  raises("os.setlocale: a worker cannot change the locale", function() worker.new("os.setlocale 'C'"):call() end)
  equal(worker.new("return os.setlocale()"):call(), os.setlocale())
  equal(worker.new("return debug.sethook == nil and debug.getregistry == nil and type(debug.traceback)"):call(), "function")
end)

test("jobs run at once, on other threads", function()
  local one, two = worker.channel(0), worker.channel(0)
  local w = worker.pool({ size = 2 }):new "local mine, other, first = ... if first then mine:send(1) else other:receive() end return first"
  local a = async.run(function() return w:call(one, two, true) end)
  local b = async.run(function() return w:call(two, one, false) end)
  equal(async.await(a), true)
  equal(async.await(b), false)
end)

-- --- The queue -----------------------------------------------------------------------------------

test("a full queue fails run with why, and makes call wait", function()
  local pool = worker.pool { size = 1, queue = 2 }
  local gate = worker.channel(10)
  local w = pool:new "return (...):receive()"
  local done = 0
  local function count() done = done + 1 end
  truthy(w:run(gate, count))
  truthy(w:run(gate, count))
  truthy(w:run(gate, count))
  local job, err = w:run(gate, count)
  equal(job, nil)
  equal(err, "the worker queue is full (2 jobs wait)")
  equal(w:pending(), 3)
  local called = async.run(function() return w:call(gate) end)
  for i = 1, 4 do gate:send(i) end
  equal(async.await(called), 4)
  async.sleep(1)
  equal(done, 3)
end)

test("a thousand jobs of one worker each return their own result", function()
  local w = worker.new "return ... * 2"
  local sum = 0
  async.scope(function()
    for i = 1, 1000 do
      async.run(function()
        local value = w:call(i)
        sum = sum + value
      end)
    end
  end)
  equal(sum, 1000 * 1001)
end)

-- --- Map -----------------------------------------------------------------------------------------

test("map keeps the order of its inputs", function()
  local results = worker.map("local x = ... require 'orrery'.async.sleep(100 - x) return x * x", { 1, 2, 3, 4, 5 })
  equal(results.n, 5)
  equal(table.concat(results, " "), "1 4 9 16 25")
  equal(worker.map("return 1", {}).n, 0)
  results = worker.map("return ...", { n = 3, nil, 2, nil })
  equal(results.n, 3)
  equal(results[2], 2)
end)

test("map runs as many at once as it is told", function()
  local pool = worker.pool { size = 50 }
  local results = pool:map("require 'orrery'.async.sleep(100) return ...", { 1, 2, 3, 4, 5, 6 }, { concurrency = 3 })
  equal(#results, 6)
  truthy(check.elapsed() >= 200 and (not check.virtual or check.elapsed() == 200), check.elapsed())
end)

test("map takes a worker, and a function", function()
  local w = worker.new "return ... + 1"
  equal(worker.map(w, { 1, 2 })[2], 3)
  equal(worker.map(function(x) return x .. "!" end, { "a" })[1], "a!")
end)

test("an item that fails fails map, and the other jobs are cancelled", function()
  local pool = worker.pool { size = 4 }
  raises("item 2", function()
    pool:map("if ... == 2 then error 'item 2' end require 'orrery'.async.sleep(1e12)", { 1, 2, 3 }, { concurrency = 3 })
  end)
  settle(pool)
end)

test("a wrong argument is blamed on the caller's line", function()
  local here = debug.getinfo(1, "l").currentline
  local w, pool = worker.new "return 1", worker.pool {}
  local wrong = {
    function() worker.map({ 1, 2 }, function() end) end,
    function() worker.map("", 5) end,
    function() worker.map("", {}, { x = 1 }) end,
    function() worker.map("", {}, { concurrency = 0 }) end,
    function() worker.map("", {}, { timeout = "x" }) end,
    function() pool:map({}, {}) end,
    function() worker.new(5) end,
    function() worker.new("", { x = 1 }) end,
    function() w:run(5) end,
    function() w:run { callback = print, x = 1 } end,
    function() w:run { callback = print, timeout = "x" } end,
    function() w:call { timeout = "x" } end,
    function() pool.new(5, "") end,
    function() worker.pool { size = "x" } end,
    function() async.timeout("x", async.run(function() end)) end,
  }
  for i, fn in ipairs(wrong) do
    local _, err = pcall(fn)
    truthy(tostring(err):find((":%d: "):format(here + 2 + i), 1, true), err)
  end
end)

test("map checks its arguments", function()
  raises("worker.map: expected a script", worker.map, 5, {})
  raises("worker.map: expected a list, got nil", worker.map, "")
  raises("worker.map: unknown option 'x'", worker.map, "", {}, { x = 1 })
  raises("worker.map: option concurrency: expected an integer from 1 to 1000000, got 0", worker.map, "", {}, { concurrency = 0 })
  raises("worker.map: option timeout: expected milliseconds", worker.map, "", { 1 }, { timeout = "x" })
  raises("timeout", worker.map, "while true do end", { 1 }, { timeout = 20 })
  raises("args: a function cannot be copied", worker.map, "", { print })
  raises("worker.map: expected a script", worker.map, worker.pool(), {})
end)

-- --- Pools ---------------------------------------------------------------------------------------

test("a pool runs a limited number of jobs at once, in order", function()
  local pool = worker.pool { size = 2 }
  local w = pool:new "require 'orrery'.async.sleep(100)"
  local ends = {}
  async.scope(function()
    for i = 1, 6 do
      async.run(function() w:call() ends[i] = check.elapsed() end)
    end
  end)
  for i = 1, 6 do
    local due = (i + 1) // 2 * 100
    truthy(check.virtual and ends[i] == due or not check.virtual and ends[i] >= due, ends[i])
  end
end)

test("a pool has a time-out, and a limit of memory, of its own", function()
  local pool = worker.pool { timeout = 50, memory = 2 << 20 }
  equal(outcome_of(pool:new "require 'orrery'.async.sleep(1e12)")[2], "timeout")
  raises("not enough memory", function() pool:new("local t = {} for i = 1, 1e7 do t[i] = { i } end"):call { timeout = 1e6 } end)
  equal(pool:new("return 'the next is not concerned'"):call(), "the next is not concerned")
  equal(worker.new("return #string.rep('x', 4 << 20)"):call(), 4 << 20)
end)

test("a pool that is closed closes its workers", function()
  local pool = worker.pool()
  local w = pool:new "require 'orrery'.async.sleep(1e12)"
  w:run(function() note "called" end)
  pool:close()
  raises("worker:call: the worker is closed", w.call, w)
  raises("pool:new: the pool is closed", pool.new, pool, "")
  raises("pool:map: the pool is closed", pool.map, pool, "", {})
  settle(pool)
  check.notes ""
end)

test("a pool's options are checked", function()
  raises("worker.pool: option size: expected an integer from 1 to 1000000, got 0", worker.pool, { size = 0 })
  raises("worker.pool: option size: expected an integer from 1 to 1000000, got 1.5", worker.pool, { size = 1.5 })
  raises("worker.pool: option queue: expected an integer from 1 to", worker.pool, { queue = "many" })
  raises("worker.pool: option memory: expected an integer of at least 1, got 0", worker.pool, { memory = 0 })
  raises("worker.pool: option timeout: expected milliseconds", worker.pool, { timeout = {} })
  raises("worker.pool: unknown option 'threads'", worker.pool, { threads = 2 })
  raises("pool:new: expected a pool before the colon, got nil", worker.pool().new)
end)

test("statistics count workers and jobs", function()
  local stats = worker.stats()
  for _, name in ipairs { "threads", "size", "queue", "running", "waiting", "done", "isolates" } do
    equal(math.type(stats[name]), "integer", name)
  end
  local pool = worker.pool { size = 3, queue = 7 }
  equal(pool:stats().size, 3)
  equal(pool:stats().queue, 7)
  while worker.stats().running > 0 do async.sleep(1) end -- jobs of other tests that are being ended
  local done = worker.stats().done
  worker.new("return 1"):call()
  settle()
  equal(worker.stats().done, done + 1)
end)

test("isolates are used again for the same script", function()
  local w = worker.pool({ size = 1 }):new "return 1"
  w:call()
  local made = worker.stats().isolates
  for _ = 1, 100 do w:call() end
  truthy(worker.stats().isolates - made <= worker.stats().threads)
end)

-- --- Modules -------------------------------------------------------------------------------------

test("a worker's modules can be required, and are globals", function()
  local w = worker.new("return require 'geometry'.area(2, 3), geometry.area(4, 5)", {
    modules = { geometry = "local name = ... return { area = function(a, b) return a * b end, name = name }" },
  })
  local one, two = w:call()
  equal(one, 6)
  equal(two, 20)
end)

test("modules for all workers are registered, also as functions", function()
  worker.register("adder", function() return { add = function(a, b) return a + b end } end)
  worker.register("twice", "return function(x) return 2 * adder.add(x, 0) end")
  local w = worker.new "return adder.add(1, 2), twice(4), require 'adder' == adder, require 'twice' == twice"
  local sum, double, same, same_function = w:call()
  equal(sum, 3)
  equal(double, 8)
  equal(same, true)
  equal(same_function, true)
end)

test("an invalid module is refused, and a failing module fails the job with its name", function()
  raises("worker.register: expected the name of a module, got number", worker.register, 5, "")
  raises("worker.register: expected the name of a module, got a b", worker.register, "a b", "")
  raises("worker.register: expected a script", worker.register, "broken", 5)
  raises("[module broken]:1:", worker.register, "broken", "return +")
  raises("[module m]:1:", worker.new, "", { modules = { m = "return +" } })
  raises("[module m]:1: no", function() worker.new("return 1", { modules = { m = "error 'no'" } }):call() end)
end)

test("a module that never ends is ended with its job", function()
  local pool = worker.pool { size = 1 }
  local w = pool:new("return 1", { modules = { m = "while true do end" } })
  raises("timeout", w.call, w, { timeout = 20 })
  w:run(function() note "called" end)
  while pool:stats().running == 0 do async.checkpoint() end
  w:cancel()
  equal(pool:new("return 'free'"):call(), "free")
  check.notes ""
end)

test("a module may wait while it is loaded", function()
  local w = worker.new("return m.x", { modules = { m = "require 'orrery'.async.sleep(10) return { x = 5 }" } })
  equal(w:call(), 5)
end)


test("a callback is never called before run has returned, however quick the job is", function()
  local w = worker.new "return ..."
  for i = 1, 300 do
    local called = false
    local task = w:run(i, function(value) called = value end)
    equal(called, false)
    async.await(task)
    equal(called, i)
  end
end)

test("a job can call a callable module of the API but cannot change it", function()
  local state, changed = worker.new([[
    local orrery = require "orrery"
    local changed = pcall(function() orrery.eventloop.new = nil end)
    return orrery.eventloop().state(), changed
  ]]):call()
  equal(state, "new")
  equal(changed, false)
end)

test("an error of a call names the line of the call", function()
  local w = worker.new "return ..."
  local here = debug.getinfo(1, "Sl")
  local _, err = pcall(function() w:call(print) end)
  equal(err, ("%s:%d: worker:call: args: a function cannot be copied"):format(here.short_src, here.currentline + 1))
  w:close()
  _, err = pcall(function() w:call(1) end)
  equal(err, ("%s:%d: worker:call: the worker is closed; create another with worker.new()")
    :format(here.short_src, here.currentline + 4))
end)

test("a new worker takes over an isolate, and sees nothing of another worker", function()
  local pool <close> = worker.pool { size = 1 }
  local script = "local found = leak or string.leak leak, string.leak = 1, 2 _ENV = {} return found, %d"
  local before
  for i = 1, 20 do
    local found, n = pool:new(script:format(i)):call()
    equal(found, nil)
    equal(n, i)
    before = before or worker.stats().isolates
  end
  truthy(worker.stats().isolates - before < worker.stats().threads, "one isolate a thread serves all workers")
end)

test("a worker with other modules gets an isolate of its own", function()
  local pool <close> = worker.pool { size = 1 }
  for i = 1, 3 do
    equal(pool:new("return m", { modules = { m = ("return %d"):format(i) } }):call(), i)
    equal(pool:new("return m"):call(), nil)
  end
end)
