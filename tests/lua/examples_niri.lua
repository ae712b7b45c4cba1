-- The examples of the two documents on runtimes, word for word: the one on an asynchronous runtime
-- for a compositor, in its order, and the one on private event loops, whose examples are in its
-- sentences.  Where they are wrong, the test says what really happens.

local check = require "check"
local example = require "example"
local orrery = require "orrery"
local async, events, eventloop, loop = orrery.async, orrery.events, orrery.eventloop, orrery.loop
local test, equal, note = check.test, check.equal, check.note
local time_is = example.time_is

-- Handlers that an example has registered and does not remove.
local function with_events(name, fn)
  test(name, function()
    local _ <close> = setmetatable({}, {
      __close = function()
        events:clear()
      end,
    })
    fn()
  end)
end

-- --- The problem ---------------------------------------------------------------------------------

local freezes = [[
-- This freezes niri completely
niri.events:on("window:open", function(ev)
    while true do end
end)
]]

-- How the host goes on and ends the script is tested in C.
with_events("a handler that never returns can be registered, and is called by its event alone", function()
  example.run(freezes)
  equal(#events:list "window:open", 1)
  equal(events:emit "another", 0)
end)

-- --- Nested events -------------------------------------------------------------------------------

local nested = [[
niri.events:on("window:open", function(ev)
    -- This triggers another event emission
    niri.events:emit("custom:nested", {})
end)
]]

with_events("a handler may emit another event, whose handlers run at once", function()
  example.run(nested)
  events:on("custom:nested", function(data)
    note("nested", type(data))
  end)
  events:on("window:open", function(ev)
    note("opened", ev.id)
  end)
  events:emit("window:open", { id = 7 })
  note "emitted"
  check.notes "nested table; opened 7; emitted"
end)

-- --- Limits --------------------------------------------------------------------------------------

local limits = [[
-- Allow scripts to check their limits (read-only)
keep(
niri.runtime.execution_limit  -- Read current limit
,
niri.runtime.instructions_used  -- Read current count (for debugging)
)
]]

test("a script reads its limits: here none, and no instruction is counted", function()
  local run = example.run(limits)
  equal(run.kept[1], 0)
  equal(run.kept[2], 0)
end)

test("limits are only to be read", function()
  check.raises("", function()
    orrery.runtime.execution_limit = 5
  end)
  equal(orrery.runtime.execution_limit, 0)
end)

-- --- schedule ------------------------------------------------------------------------------------

local scheduled = [[
-- API
niri.schedule(function()
    -- This runs on the next event loop iteration
    print("Deferred execution")
end)
]]

test("a scheduled callback runs in the next turn", function()
  example.start(scheduled)
  check.notes ""
  async.sleep(1)
  check.notes "Deferred execution"
end)

local long_operations = [[
-- Use case: break up long operations
niri.events:on("window:open", function(ev)
    -- Do quick work synchronously
    local window_id = ev.id

    -- Defer heavy work
    niri.schedule(function()
        -- This won't block the window opening
        do_expensive_analysis(window_id)
    end)
end)
]]

with_events("a handler defers heavy work until its event is dealt with", function()
  example.run(long_operations, {
    do_expensive_analysis = function(id)
      note("analysed", id)
    end,
  })
  for id = 1, 3 do
    events:emit("window:open", { id = id })
    note("opened", id)
  end
  check.notes "opened 1; opened 2; opened 3"
  async.sleep(1)
  check.notes "opened 1; opened 2; opened 3; analysed 1; analysed 2; analysed 3"
  time_is(1)
end)

local from_a_flush = [[
niri.schedule(function()
    print("outer")
    niri.schedule(function()
        print("inner")
    end)
    print("outer goes on")
end)
niri.schedule(function()
    print("beside")
end)
]]

test("callbacks run in order, and callbacks that they schedule run in a later turn", function()
  example.start(from_a_flush)
  async.sleep(1)
  check.notes "outer; outer goes on; beside; inner"
end)

test("more callbacks than a turn has room for all run, in order", function()
  local got = {}
  for i = 1, 100 do
    orrery.schedule(function()
      got[#got + 1] = i
    end)
  end
  equal(#got, 0)
  async.sleep(1)
  equal(#got, 100)
  for i = 1, 100 do
    equal(got[i], i)
  end
end)

-- --- loop ----------------------------------------------------------------------------------------

local timers = [[
-- Timers
local timer = niri.loop.new_timer()
timer:start(1000, 0, function()  -- 1000ms delay, no repeat
    print("Timer fired!")
end)
timer:stop()
timer:close()

-- Repeating timer
local repeating = niri.loop.new_timer()
repeating:start(0, 500, function()  -- No delay, repeat every 500ms
    print("Tick")
end)

-- Time functions
local now = niri.loop.now()  -- Monotonic time in milliseconds
]]

test("a stopped and closed timer does not fire, and a repeating timer runs until it is closed", function()
  local run = example.run(timers, nil, "keep(now)")
  equal(run.kept[1], loop.now())
  equal(run.made[1]:is_closing(), true)
  check.notes ""
  async.sleep(1100)
  check.notes "Tick; Tick; Tick"
  run.made[2]:close()
  async.sleep(1000)
  check.notes "Tick; Tick; Tick"
end)

test("the first callback of the API's timer comes after its delay, without the lines that stop it", function()
  local source, count = timers:gsub("timer:stop%(%)\ntimer:close%(%)", "")
  equal(count, 1)
  source, count = source:gsub("repeating:start.-end%)", "")
  equal(count, 1)
  local run = example.run(source)
  async.sleep(999)
  check.notes ""
  async.sleep(1)
  check.notes "Timer fired!"
  run.made[1]:close()
end)

test("timers go on when their handles are collected", function()
  local run = example.run(timers)
  local repeating = run.made[2]
  run.made[1], run.made[2] = nil, nil
  local held = setmetatable({ repeating }, { __mode = "v" })
  repeating = nil
  collectgarbage()
  collectgarbage()
  async.sleep(600)
  check.notes "Tick; Tick"
  held[1]:close()
  equal(repeating, nil)
end)

local patterns = [[
-- One-shot timer with auto-cleanup
local function set_timeout(timeout_ms, callback)
    local timer = niri.loop.new_timer()
    timer:start(timeout_ms, 0, function()
        timer:stop()
        timer:close()  -- Explicit cleanup
        callback()
    end)
    return timer
end

-- Repeating timer (user must close when done)
local ticker = niri.loop.new_timer()
ticker:start(0, 1000, function()
    print("tick")
end)
-- Later: ticker:close()
]]

test("a helper of the script's own makes one-shot timers that clean up after themselves", function()
  local run = example.run(patterns, nil, "keep(set_timeout, ticker)")
  local set_timeout, ticker = run.kept[1], run.kept[2]
  local timer = set_timeout(300, function()
    note("rang", check.elapsed())
  end)
  equal(timer:is_closing(), false)
  async.sleep(2500)
  equal(timer:is_closing(), true)
  check.notes "tick; rang 300; tick; tick"
  ticker:close()
  async.sleep(2000)
  check.notes "tick; rang 300; tick; tick"
end)

test("the helper of the library does the same", function()
  local timer = loop.set_timeout(300, function()
    note("rang", check.elapsed())
  end)
  async.sleep(500)
  equal(timer:is_closing(), true)
  check.notes "rang 300"
end)

test("a timer does not expire, however long it takes", function()
  local hour = 60 * 60 * 1000
  local timer = loop.new_timer():start(24 * hour, hour, function()
    note(check.elapsed() // hour)
  end)
  async.sleep(26.5 * hour)
  timer:close()
  check.notes "24; 25; 26"
end)

-- --- Tests by hand -------------------------------------------------------------------------------

local a_flag = [[
    __scheduled = false
    niri.schedule(function()
        __scheduled = true
    end)
]]

test("a scheduled callback sets a flag, and not before its turn", function()
  local run = example.start(a_flag, nil, "keep(_ENV)")
  local env = run.kept[1]
  equal(env.__scheduled, false)
  async.sleep(1)
  equal(env.__scheduled, true)
end)

local by_hand = [==[
-- Test script: test_async.lua

-- Test 1: Schedule
print("Before schedule")
niri.schedule(function()
    print("Scheduled callback executed")
end)
print("After schedule (callback not yet run)")

-- Test 2: Timer
local timer = niri.loop.new_timer()
timer:start(1000, 0, function()
    print("Timer fired after 1 second")
end)

-- Test 3: Worker
local worker = niri.worker.new([[
    local sum = 0
    for i = 1, 1000000 do sum = sum + i end
    return sum
]])
worker:run(function(result)
    print("Worker result:", result)
end)

-- Test 4: Timeout protection
-- This should NOT freeze the compositor
-- niri.events:on("test", function()
--     while true do end  -- Should timeout
-- end)
]==]

test("a script schedules, starts a timer and has a worker compute, and all of it comes after it", function()
  example.start(by_hand)
  local said = "Before schedule; After schedule (callback not yet run)"
  check.notes(said)
  async.sleep(999)
  said = said .. "; Scheduled callback executed; Worker result: 500000500000"
  check.notes(said)
  async.sleep(1)
  check.notes(said .. "; Timer fired after 1 second")
end)

-- --- Migration -----------------------------------------------------------------------------------

local before = [[
-- Before (might timeout)
for i = 1, 10000000 do
    process(i)
end
]]

local after = [[
-- After (chunked processing)
local i = 0
local function process_chunk()
    local chunk_end = math.min(i + 10000, 10000000)
    while i < chunk_end do
        process(i)
        i = i + 1
    end
    if i < 10000000 then
        niri.schedule(process_chunk)
    end
end
process_chunk()
]]

-- With a hundredth of the work.
local function less(source)
  local made, count = source:gsub("10000000", "100000")
  check.truthy(count > 0, "a number to be made smaller")
  return made
end

test("a long loop runs to its end, where there is no limit, and nothing else of the script does meanwhile", function()
  local sum, other = 0, false
  orrery.schedule(function()
    other = true
  end)
  example.run(less(before), {
    process = function(i)
      sum = sum + i
      check.truthy(not other, "nothing else running")
    end,
  })
  equal(sum, 100000 * 100001 // 2)
end)

test("work in chunks lets others run between any two", function()
  local count, sum, looks = 0, 0, 0
  example.start(less(after), {
    process = function(i)
      count = count + 1
      sum = sum + i
    end,
  })
  equal(count, 10000, "the first chunk")
  while count < 100000 do
    equal(count % 10000, 0, "a look between chunks")
    looks = looks + 1
    async.checkpoint()
  end
  equal(sum, 99999 * 100000 // 2)
  check.truthy(looks >= 9, "others had their turns: this")
  time_is(0)
end)

-- --- Private loops -------------------------------------------------------------------------------

-- Functions that the document takes from elsewhere, made of tasks.
local parallel = {}

local function start_all(functions)
  local tasks = {}
  for i, fn in ipairs(functions) do
    tasks[i] = async.run(fn)
  end
  return tasks
end

function parallel.waitForAll(...)
  async.await_all(start_all { ... })
end

function parallel.waitForAny(...)
  local tasks = start_all { ... }
  local index = async.await_any(tasks)
  for _, task in ipairs(tasks) do
    task:close()
  end
  return index
end

local function sleep(seconds)
  async.sleep(1000 * seconds)
end

test("a program that is purely sequential prints, sleeps, prints again, and exits", function()
  example.run([[
    print("before")
    sleep(0.5)
    print("after")
  ]], { sleep = sleep })
  check.notes "before; after"
  time_is(500)
end)

local a_guard = [[
keep(parallel.waitForAny(task, function() sleep(t); end))
]]

test("a sleep beside a task bounds it", function()
  local function task()
    local _ <close> = setmetatable({}, {
      __close = function()
        note "cleaned"
      end,
    })
    sleep(10)
    note "never"
  end
  local run = example.run(a_guard, { parallel = parallel, sleep = sleep, task = task, t = 2 })
  equal(run.kept[1], 2)
  check.notes "cleaned"
  time_is(2000)
end)

test("a task that is done in time ends the sleep beside it", function()
  local function task()
    sleep(1)
  end
  local run = example.run(a_guard, { parallel = parallel, sleep = sleep, task = task, t = 2 })
  equal(run.kept[1], 1)
  time_is(1000)
end)

with_events("a sleep inside a handler stops neither timers nor other events, here", function()
  local outer <close> = eventloop.new()
  outer.setTimeout(5, function()
    note("timer", check.elapsed())
  end)
  outer.register("slow", function()
    sleep(0.02)
    note("slow", check.elapsed())
    outer.stopLoop()
  end)
  outer.register("other", function(n)
    note("other", n, check.elapsed())
  end)
  outer.queueEvent "slow"
  outer.queueEvent("other", 1)
  outer.setTimeout(10, function()
    outer.queueEvent("other", 2)
  end)
  outer.runLoop()
  check.notes "other 1 0; timer 5; other 2 10; slow 20"
  outer.dispose()
end)

-- The library of the document: it takes a factory, and polls until there is an answer.
local a_library = [[
local function pollMessage(eventloop, http, interval, tries)
  local loop = eventloop()
  local result, err
  local function finish(value, reason)
    result, err = value, reason
    loop.stopLoop()
  end
  local function attempt()
    local answer = http.get()
    if answer then
      return finish(answer)
    end
    tries = tries - 1
    if tries == 0 then
      return finish(nil, "timeout")
    end
    loop.setTimeout(interval, attempt)
  end
  loop.onStart(attempt)
  loop.runLoop()
  return result, err
end
keep(pollMessage)
]]

local function poll_message()
  return example.run(a_library).kept[1]
end

-- Answers at its n-th request.
local function http(n)
  local asked = 0
  return {
    get = function()
      asked = asked + 1
      note("asked", check.elapsed())
      return asked == n and "answer" or nil
    end,
  }
end

with_events("asking from inside a handler freezes nobody, and the function looks synchronous", function()
  local poll = poll_message()
  events:on("ask", function()
    note(poll(eventloop.new, http(3), 100, 10))
  end)
  events:on("key", function(key)
    note("key", key, check.elapsed())
  end)
  loop.set_timeout(120, function()
    note("timer", check.elapsed())
  end)
  events:emit "ask"
  events:emit("key", "a")
  async.sleep(150)
  events:emit("key", "b")
  async.sleep(100)
  check.notes "asked 0; key a 0; asked 100; timer 120; key b 150; asked 200; answer nil"
end)

test("functions that ask are composed side by side", function()
  local poll = poll_message()
  parallel.waitForAll(function()
    note("first", poll(eventloop.new, http(3), 100, 10))
  end, function()
    note("second", poll(eventloop.new, http(2), 30, 10))
  end)
  check.notes "asked 0; asked 0; asked 30; second answer nil; asked 100; asked 200; first answer nil"
end)

test("a test gives a library loops of its own, on the virtual clock, and sees that nothing is left in them", function()
  local made = {}
  local function factory()
    made[#made + 1] = eventloop.new()
    return made[#made]
  end
  local poll = poll_message()
  equal(poll(factory, http(4), 1000, 10), "answer")
  time_is(3000)
  local _, err = poll(factory, http(4), 1000, 3)
  equal(err, "timeout")
  time_is(5000)
  equal(#made, 2)
  for _, private in ipairs(made) do
    equal(private.pending(), 0)
    equal(private.isRunning(), false)
  end
end)

-- --- Workers -------------------------------------------------------------------------------------

-- Waits until nothing is left of an example's workers.
local function until_workers_rest()
  repeat
    async.sleep(1)
  until orrery.worker.stats().running == 0
end

local first_worker = [[
-- Create a worker with a Lua script
local worker = niri.worker.new([=[
    -- This runs in a separate thread with isolated Lua state
    -- Limited API: no niri.events, no niri.action, only pure computation
    local result = 0
    for i = 1, 1000000 do
        result = result + i
    end
    return result
]=])

-- Execute with callback (non-blocking)
-- Optional timeout in milliseconds (default: 300000 = 5 minutes)
worker:run(function(result, err)
    if err then
        print("Worker error:", err)
    else
        print("Worker result:", result)
    end
end)
]]

test("a worker computes on another thread, and its callback gets the result", function()
  example.run(first_worker)
  note "goes on"
  until_workers_rest()
  check.notes "goes on; Worker result: 500000500000"
end)

local second_worker = [[
-- With arguments and custom timeout
local worker2 = niri.worker.new([=[
    local args = ...
    return args.x + args.y
]=])
worker2:run({ x = 10, y = 20 }, {
    timeout = 60000,  -- 1 minute timeout
    callback = function(result, err)
        print("Sum:", result)  -- 30
    end
})
]]

test("a worker gets arguments, and a time-out of its own", function()
  example.run(second_worker)
  until_workers_rest()
  check.notes "Sum: 30"
end)

local cancelled_worker = [[
-- Cancel a pending worker (cleans up callback)
worker:cancel()
]]

-- Unlike in the document, where the worker would compute to its end, the worker is stopped.
test("a worker that is cancelled never calls back, and is stopped", function()
  example.run(first_worker .. cancelled_worker)
  until_workers_rest()
  check.notes ""
end)

local endless_worker = [[
local worker = niri.worker.new([=[ while true do end ]=])
worker:run(args, { callback = function(r) print "called" end })

-- Later, if result no longer needed:
worker:cancel()  -- Callback cleaned up, result ignored if/when worker completes
]]

test("cancelling ends a job that would never complete", function()
  example.run(endless_worker, { args = { 1 } })
  until_workers_rest()
  check.notes ""
end)

test("a worker can be sent plain values only", function()
  local echo = orrery.worker.new "return ..."
  for _, value in ipairs { true, false, 1, -1.5, "text", { 1, 2, 3 }, { x = { y = 1 } } } do
    equal(type(echo:call(value)), type(value))
  end
  equal(echo:call(nil), nil)
  local circle = {}
  circle.itself = circle
  check.raises("args.itself", echo.call, echo, circle)
  check.raises("a function cannot be copied", echo.call, echo, { f = print })
  check.raises("metatable", echo.call, echo, setmetatable({}, {}))
  check.raises("args.x", echo.call, echo, { x = io.stdout })
end)

-- The example of the unit test.
test("a worker has a state of its own", function()
  equal(orrery.worker.new("return 1 + 1"):call(), 2)
end)

-- --- Migration -----------------------------------------------------------------------------------

local migrated = [[
-- After (runs in background)
niri.worker.new([=[
    return expensive_computation(...)
]=]):run(data, {
    callback = function(result)
        use_result(result)
    end
})
]]

-- The document does not say how a worker, which has its own state, gets the function.  Here it is
-- registered for workers.
test("heavy computation moves to a worker, by a function that was registered for workers", function()
  orrery.worker.register("expensive_computation", [[
    return function(data)
      local sum = 0
      for _, value in ipairs(data) do sum = sum + value end
      return sum
    end
  ]])
  example.run(migrated, {
    data = { 1, 2, 3, 4 },
    use_result = function(result)
      note("used", result)
    end,
  })
  note "goes on"
  until_workers_rest()
  check.notes "goes on; used 10"
end)

