-- Timers.  Late repeats and failing callbacks are tested in C, where the clock can be moved and
-- failures counted.

local check = require "check"
local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop
local test, equal, note, raises = check.test, check.equal, check.note, check.raises
local noting, noting_time = check.noting, check.noting_time

local function nothing() end

-- --- Starting ------------------------------------------------------------------------------------

test("a timer calls back once, after its delay, with nothing", function()
  local timer = loop.new_timer()
  timer:start(10, 0, function(...)
    note(check.elapsed(), select("#", ...))
  end)
  check.notes ""
  async.sleep(100)
  check.notes "10 0"
end)

test("a delay of nothing is the next turn, not now", function()
  loop.new_timer():start(0, 0, noting_time "fired")
  note "started"
  async.sleep(1)
  check.notes "started; fired 0"
end)

test("a timer repeats after its delay", function()
  local timer = loop.new_timer()
  timer:start(5, 10, noting_time "tick")
  async.sleep(30)
  timer:close()
  check.notes "tick 5; tick 15; tick 25"
end)

test("timers that are due at the same time fire in the order of their starting", function()
  local timers = {}
  for i = 1, 5 do
    timers[i] = loop.new_timer()
  end
  for _, i in ipairs { 3, 1, 5, 2, 4 } do
    timers[i]:start(10, 0, noting(i))
  end
  async.sleep(20)
  check.notes "3; 1; 5; 2; 4"
end)

test("starting a timer that is started replaces its time and its callback", function()
  local timer = loop.new_timer()
  timer:start(10, 10, noting "the first")
  equal(timer:start(20, 0, noting_time "the second"), timer)
  async.sleep(100)
  check.notes "the second 20"
end)

test("a timer is started again by its own callback", function()
  local timer, count = loop.new_timer(), 0
  local function tick()
    count = count + 1
    note(check.elapsed())
    if count < 3 then
      timer:start(10 * count, 0, tick)
    end
  end
  timer:start(1, 0, tick)
  async.sleep(100)
  check.notes "1; 11; 31"
end)

test("fractions of milliseconds count, to the nanosecond", function()
  local began = loop.hrtime()
  for _, ms in ipairs { 0.25, 1.001, 4.35, 0.000001 } do
    loop.set_timeout(ms, function()
      note(loop.hrtime() - began)
    end)
  end
  async.sleep(10)
  check.notes "1; 250000; 1001000; 4350000"
end)

test("a callback may wait, and is a task without a parent", function()
  local task = async.run(function()
    loop.set_timeout(10, function()
      async.sleep(10)
      note("callback", check.elapsed())
    end)
  end)
  equal(task:status(), "completed")
  async.sleep(50)
  check.notes "callback 20"
end)

-- --- Lifetime ------------------------------------------------------------------------------------

test("a timer goes on when its handle is collected", function()
  local held = setmetatable({}, { __mode = "v" })
  do
    local timer = loop.new_timer()
    timer:start(10, 0, noting_time "once")
    local count = 0
    held[2] = loop.new_timer():start(5, 10, function()
      count = count + 1
      note("tick", count)
      if count == 4 then
        held[2]:close()
      end
    end)
    held[1] = timer
  end
  collectgarbage()
  collectgarbage()
  async.sleep(27)
  collectgarbage()
  check.notes "tick 1; once 10; tick 2; tick 3"
  equal(held[1], nil, "a timer that has fired, and that nobody holds")
  async.sleep(10)
  check.notes "tick 1; once 10; tick 2; tick 3; tick 4"
end)

test("a timer that is neither started nor referenced is collected", function()
  local held = setmetatable({}, { __mode = "v" })
  held[1] = loop.new_timer()
  held[2] = loop.new_timer():start(10, 10, nothing):stop()
  collectgarbage()
  collectgarbage()
  equal(#held, 0)
end)

test("a repeating timer is closed by its own callback, which goes on", function()
  local timer, count = loop.new_timer(), 0
  timer:start(10, 10, function()
    count = count + 1
    if count == 2 then
      timer:close()
      note("closed", timer:is_closing(), timer:is_active())
      async.sleep(15)
      note "and on"
    end
  end)
  async.sleep(100)
  equal(count, 2)
  check.notes "closed true false; and on"
end)

test("close may be called twice, and of a timer that was never started", function()
  local timer = loop.new_timer()
  timer:close()
  timer:close()
  equal(timer:is_closing(), true)
  timer = loop.new_timer():start(10, 0, noting "never")
  timer:close()
  timer:close()
  async.sleep(20)
  check.notes ""
end)

test("close calls back in the next turn, also if the timer is closed already", function()
  local timer = loop.new_timer():start(1, 0, noting "fired")
  timer:close(noting "closed")
  timer:close(noting "again")
  note "after"
  async.sleep(5)
  check.notes "after; closed; again"
  raises("function expected, got number", timer.close, timer, 5)
end)

test("an await that returns a timer does not wait for a callback of its close", function()
  local stats = orrery.runtime.stats
  local before = stats().schedule_run
  async.await(function(callback)
    return loop.new_timer():start(1, 0, callback)
  end)
  async.sleep(1)
  equal(stats().schedule_run, before)
end)

test("a closed timer is not to be used", function()
  local timer = loop.new_timer()
  timer:close()
  raises("the timer is closed", timer.start, timer, 1, 0, nothing)
  for _, method in ipairs { "again", "get_due_in", "get_repeat" } do
    raises("the timer is closed", timer[method], timer)
  end
  raises("the timer is closed", timer.set_repeat, timer, 1)
  equal(timer:stop(), timer)
  equal(timer:is_active(), false)
  equal(timer:is_closing(), true)
end)

test("a timer closed by another's callback at the same time does not fire", function()
  local second = loop.new_timer()
  loop.new_timer():start(10, 0, function()
    second:close()
  end)
  second:start(10, 0, noting "second")
  async.sleep(20)
  check.notes ""
end)

test("a timer that another callback of the same turn stops or restarts does not fire", function()
  local stopped, restarted, again = loop.new_timer(), loop.new_timer(), loop.new_timer()
  loop.new_timer():start(10, 0, function()
    stopped:stop()
    restarted:start(10, 0, noting_time "restarted")
    again:again()
  end)
  stopped:start(10, 0, noting "stopped")
  restarted:start(10, 0, noting "restarted too early")
  again:start(10, 15, noting_time "again")
  async.sleep(30)
  again:close()
  check.notes "restarted 20; again 25"
end)

-- --- Stopping and going on -----------------------------------------------------------------------

test("a timer that is stopped does not fire, and can be started again", function()
  local timer = loop.new_timer()
  timer:start(10, 0, noting "never")
  equal(timer:stop(), timer)
  timer:stop()
  equal(timer:is_active(), false)
  equal(timer:is_closing(), false)
  async.sleep(20)
  timer:start(10, 0, noting_time "started again")
  async.sleep(20)
  check.notes "started again 30"
end)

test("a repeating timer is stopped by its own callback", function()
  local timer = loop.new_timer()
  timer:start(10, 10, function()
    note(check.elapsed())
    timer:stop()
  end)
  async.sleep(50)
  check.notes "10"
end)

test("again restarts a timer with its callback, one repeat from now", function()
  local timer = loop.new_timer()
  timer:start(10, 20, noting_time "tick")
  async.sleep(5)
  equal(timer:again(), timer)
  async.sleep(30)
  check.notes "tick 25"
  timer:stop()
  async.sleep(30)
  timer:again()
  async.sleep(25)
  timer:close()
  check.notes "tick 25; tick 85"
end)

test("again delays a callback until there has been a pause", function()
  local timer = loop.new_timer()
  timer:start(20, 20, function()
    note(check.elapsed())
    timer:stop()
  end)
  for _ = 1, 5 do
    async.sleep(10)
    timer:again()
  end
  async.sleep(100)
  check.notes "70"
  timer:close()
end)

test("again of a timer that does not repeat, or was never started, is refused", function()
  local timer = loop.new_timer()
  raises("timer:again", timer.again, timer)
  timer:set_repeat(10)
  raises("timer:again", timer.again, timer)
  timer:start(10, 0, nothing)
  raises("timer:again", timer.again, timer)
  timer:close()
end)

test("the repeat can be asked for", function()
  local timer = loop.new_timer()
  equal(timer:get_repeat(), 0)
  equal(timer:set_repeat(2.5), timer)
  equal(timer:get_repeat(), 2.5)
  timer:start(1, 30, nothing)
  equal(timer:get_repeat(), 30)
  timer:close()
end)

test("a repeat that is set while the timer is started holds from its next firing on", function()
  local timer = loop.new_timer()
  timer:start(10, 10, noting_time "tick")
  async.sleep(15)
  timer:set_repeat(25)
  equal(timer:get_due_in(), 5)
  async.sleep(60)
  check.notes "tick 10; tick 20; tick 45; tick 70"
  timer:set_repeat(0)
  async.sleep(100)
  check.notes "tick 10; tick 20; tick 45; tick 70; tick 95"
  equal(timer:is_active(), false)
  timer:start(5, 0, noting_time "once")
  timer:set_repeat(10)
  async.sleep(20)
  timer:close()
  check.notes "tick 10; tick 20; tick 45; tick 70; tick 95; once 180; once 190"
end)

test("how long it is until a timer fires can be asked for", function()
  local timer = loop.new_timer()
  equal(timer:get_due_in(), nil)
  equal(select("#", timer:get_due_in()), 1)
  timer:start(10, 0, nothing)
  equal(timer:get_due_in(), 10)
  async.sleep(4)
  equal(timer:get_due_in(), 6)
  timer:start(10, 40, nothing)
  async.sleep(20)
  equal(timer:get_due_in(), 30)
  timer:stop()
  equal(timer:get_due_in(), nil)
end)

test("a timer is active from its start until it has fired or is stopped", function()
  local timer = loop.new_timer()
  equal(timer:is_active(), false)
  timer:start(10, 0, function()
    note(timer:is_active())
  end)
  equal(timer:is_active(), true)
  async.sleep(10)
  equal(timer:is_active(), false)
  timer:start(10, 10, function()
    note(timer:is_active())
  end)
  async.sleep(15)
  equal(timer:is_active(), true)
  timer:close()
  equal(timer:is_active(), false)
  check.notes "false; true"
end)

-- --- The short forms -----------------------------------------------------------------------------

test("set_timeout calls back once, and has cleaned up after itself by then", function()
  local timer
  timer = loop.set_timeout(10, function()
    note(check.elapsed(), timer:is_closing())
  end)
  equal(timer:is_closing(), false)
  async.sleep(50)
  check.notes "10 true"
end)

test("set_timeout answers a timer that can be closed first", function()
  loop.set_timeout(10, noting "never"):close()
  async.sleep(20)
  check.notes ""
end)

test("the callback of set_timeout can be collected after its call", function()
  local held = setmetatable({}, { __mode = "k" })
  do
    local function callback() end
    held[callback], held[loop.set_timeout(10, callback)] = true, true
  end
  collectgarbage()
  check.truthy(next(held), "held meanwhile: this")
  async.sleep(20)
  collectgarbage()
  collectgarbage()
  equal(next(held), nil)
end)

test("set_interval calls back until it is closed", function()
  local timer = loop.set_interval(10, noting_time "tick")
  async.sleep(35)
  timer:close()
  async.sleep(50)
  check.notes "tick 10; tick 20; tick 30"
end)

test("an interval of 0 is a millisecond", function()
  local timer = loop.set_interval(0, noting_time "tick")
  async.sleep(2.5)
  timer:close()
  check.notes "tick 1; tick 2"
end)

test("defer takes the function first", function()
  local timer = loop.defer(noting_time "deferred", 10)
  equal(timer:is_active(), true)
  async.sleep(20)
  equal(timer:is_closing(), true)
  check.notes "deferred 10"
end)

test("the clock is told in milliseconds and in nanoseconds", function()
  local ms, ns = loop.now(), loop.hrtime()
  equal(math.type(ns), "integer")
  async.sleep(2.5)
  equal(loop.now() - ms, 2.5)
  equal(loop.hrtime() - ns, 2500000)
end)

-- --- Misuse --------------------------------------------------------------------------------------

local wrong = {
  { -1, "expected milliseconds, at least 0, got -1" },
  { 0 / 0, "expected milliseconds, at least 0, got " },
  { math.huge, "expected milliseconds, at least 0, got inf" },
  { -math.huge, "expected milliseconds, at least 0, got -inf" },
}
local no_numbers = { "10", true, {}, nothing }

test("times that are none are refused by timers, which name the argument", function()
  local timer = loop.new_timer()
  local function start(...)
    timer:start(...)
  end
  local function set_repeat(...)
    timer:set_repeat(...)
  end
  for _, case in ipairs(wrong) do
    raises("bad argument #1 to 'start' (" .. case[2], start, case[1], 0, nothing)
    raises("bad argument #2 to 'start' (" .. case[2], start, 0, case[1], nothing)
    raises("bad argument #1 to 'set_repeat' (" .. case[2], set_repeat, case[1])
  end
  for _, value in ipairs(no_numbers) do
    local words = "(number expected, got " .. type(value)
    raises("bad argument #1 to 'start' " .. words, start, value, 0, nothing)
    raises("bad argument #2 to 'start' " .. words, start, 0, value, nothing)
    raises("bad argument #1 to 'set_repeat' " .. words, set_repeat, value)
  end
  raises("bad argument #1 to 'start' (number expected, got no value)", start)
  raises("bad argument #3 to 'start' (function expected, got no value)", start, 1, 1)
  raises("bad argument #3 to 'start' (function expected, got string)", start, 1, 1, "x")
  equal(timer:is_active(), false)
  raises("orrery.timer expected", timer.start, {}, 1, 1, nothing)
end)

test("set_timeout and set_interval refuse invalid times and callbacks", function()
  local function defer(ms, fn)
    loop.defer(fn, ms)
  end
  for name, fn in pairs { set_timeout = loop.set_timeout, set_interval = loop.set_interval, defer = defer } do
    local prefix = "loop." .. name .. ": "
    for _, case in ipairs(wrong) do
      raises(prefix .. case[2], fn, case[1], nothing)
    end
    for _, value in ipairs(no_numbers) do
      raises(prefix .. "expected milliseconds, got " .. type(value), fn, value, nothing)
    end
    raises(prefix .. "expected milliseconds, got nil", fn, nil, nothing)
    raises(prefix .. "expected a function, got nil", fn, 1)
    raises(prefix .. "expected a function, got string", fn, 1, "x")
  end
end)

test("a refused start leaves the timer as it was", function()
  local timer = loop.new_timer():start(10, 0, noting_time "fired")
  raises("bad argument", timer.start, timer, -1, 0, noting "never")
  raises("bad argument", timer.start, timer, 1, 0)
  async.sleep(20)
  check.notes "fired 10"
end)

test("the longest time is not too long", function()
  local timer = loop.new_timer():start(1e300, 1e300, noting "never")
  async.sleep(10)
  equal(timer:is_active(), true)
  timer:close()
  check.notes ""
end)

test("statistics count timers", function()
  local before = orrery.runtime.stats()
  local function expect(...)
    local names = { "pending", "fired", "cancelled", "rearmed", "migrated", "dropped" }
    for i, name in ipairs(names) do
      equal(orrery.runtime.stats()["timers_" .. name] - before["timers_" .. name], (select(i, ...)), name)
    end
  end
  local once, again = loop.new_timer(), loop.new_timer()
  expect(0, 0, 0, 0, 0, 0)
  once:start(10, 0, nothing)
  again:start(10, 10, nothing)
  expect(2, 0, 0, 0, 0, 0)
  async.sleep(35)
  expect(1, 4, 0, 0, 0, 0)
  again:start(10, 10, nothing)
  again:again()
  again:set_repeat(5)
  expect(1, 4, 0, 3, 0, 0)
  again:stop()
  again:stop() -- does nothing
  expect(0, 4, 1, 3, 0, 0)
  once:start(10, 0, nothing)
  once:close()
  again:close()
  expect(0, 4, 2, 3, 0, 0)
end)

-- --- sleep(0) ------------------------------------------------------------------------------------

test("a timer that is due runs before sleep(0) returns", function()
  local timer = loop.new_timer()
  timer:start(0, 0, noting "timer")
  async.sleep(0)
  note "slept"
  timer:close()
  check.notes "timer; slept"
end)

test("sleep(0) lets ready tasks run, beside a timer that is far away", function()
  local far = loop.new_timer()
  far:start(1e9, 0, nothing)
  local other = async.run(function()
    async.checkpoint()
    note "other"
  end)
  async.sleep(0)
  note "slept"
  async.await(other)
  far:close()
  check.notes "other; slept"
end)

test("a task in sleep(0) can be closed", function()
  local task = async.run(function()
    async.sleep(0)
    note "not reached"
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  check.notes ""
end)
