-- Private loops.

local check = require "check"
local orrery = require "orrery"
local async, eventloop, events = orrery.async, orrery.eventloop, orrery.events
local test, equal, note, raises = check.test, check.equal, check.note, check.raises
local noting, noting_time = check.noting, check.noting_time

local function nothing() end

-- An object whose cleanup takes this long.
local function cleanup(word, ms)
  return setmetatable({}, {
    __close = function()
      async.shield(async.sleep, ms or 0)
      note(word)
    end,
  })
end

-- --- Timers --------------------------------------------------------------------------------------

test("timers call back in order of time, then of their setting, and the loop ends after the last", function()
  local loop = eventloop.new()
  loop.setTimeout(20, noting_time "c")
  loop.setTimeout(10, noting_time "a")
  loop.setTimeout(10, noting_time "b")
  loop.setTimeout(0, noting_time "at once")
  equal(loop.pending(), 4)
  loop.runLoop()
  check.notes "at once 0; a 10; b 10; c 20"
  equal(loop.pending(), 0)
  equal(check.elapsed(), 20)
end)

test("nothing calls back before the loop runs, and time counts from the call", function()
  local loop = eventloop.new()
  loop.setTimeout(30, noting_time "second")
  loop.setTimeout(10, noting_time "first")
  async.sleep(20)
  check.notes ""
  loop.runLoop()
  check.notes "first 20; second 30"
end)

test("timers that fell due while the loop did not run call back in the order of their times", function()
  local loop = eventloop.new()
  for _, ms in ipairs { 30, 10, 20, 10 } do
    loop.setTimeout(ms, noting(ms))
  end
  async.sleep(100)
  loop.runLoop()
  check.notes "10; 10; 20; 30"
  equal(check.elapsed(), 100)
end)

test("fractions of a millisecond count", function()
  local loop = eventloop.new()
  local began = orrery.loop.hrtime()
  local after
  loop.setTimeout(0.25, function()
    after = orrery.loop.hrtime() - began
  end)
  loop.runLoop()
  equal(after, 250000)
end)

test("a callback may set a timer, for ever", function()
  local loop = eventloop.new()
  local count = 0
  local function attempt()
    count = count + 1
    if count < 1000 then
      loop.setTimeout(1, attempt)
    end
  end
  loop.setTimeout(1, attempt)
  loop.runLoop()
  equal(count, 1000)
  equal(check.elapsed(), 1000)
end)

test("setTimeout answers a function that cancels it, and may be called again", function()
  local loop = eventloop.new()
  local early, late, cancelled_late
  early = loop.setTimeout(10, noting "never")
  early()
  early()
  equal(loop.pending(), 0)
  late = loop.setTimeout(50, noting "nor this")
  loop.setTimeout(20, function()
    late()
    cancelled_late = loop.pending()
    late()
  end)
  loop.runLoop()
  late()
  check.notes ""
  equal(cancelled_late, 0)
  equal(check.elapsed(), 20, "the loop ends when its last timer is cancelled")
end)

test("a timer that is due already can be cancelled by the one before it", function()
  local loop = eventloop.new()
  local cancel
  loop.setTimeout(10, function()
    cancel()
  end)
  cancel = loop.setTimeout(10, noting "never")
  loop.runLoop()
  check.notes ""
end)

test("a timer set by a callback can be cancelled before it has begun", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    loop.setTimeout(5, noting "never")()
  end)
  loop.runLoop()
  check.notes ""
  equal(check.elapsed(), 1)
end)

test("an interval calls back until it is cancelled, also by its own callback, which goes on", function()
  local loop = eventloop.new()
  local count, cancel = 0
  cancel = loop.setInterval(10, function()
    count = count + 1
    note(check.elapsed())
    if count == 3 then
      cancel()
      async.sleep(5)
      note "and on"
    end
  end)
  loop.runLoop()
  check.notes "10; 20; 30; and on"
  equal(loop.pending(), 0)
end)

test("an interval keeps its rate and skips missed ticks", function()
  local loop = eventloop.new()
  local count, cancel = 0
  cancel = loop.setInterval(10, function()
    count = count + 1
    note(check.elapsed())
    if count == 4 then
      cancel()
    end
    async.sleep(count == 2 and 25 or 3)
  end)
  loop.runLoop()
  check.notes "10; 20; 50; 60"
end)

test("an interval of 0 is a millisecond", function()
  local loop <close> = eventloop.new()
  loop.setInterval(0, noting_time "tick")
  loop.setTimeout(2.5, loop.stopLoop)
  loop.runLoop()
  check.notes "tick 1; tick 2"
end)

-- --- Events --------------------------------------------------------------------------------------

test("a queued event reaches its handlers in the order of their registration, with all its arguments", function()
  local loop = eventloop.new()
  local offs = {}
  for i = 1, 3 do
    offs[i] = loop.register("ping", function(...)
      note(i, select("#", ...), ...)
      offs[i]()
    end)
  end
  loop.queueEvent("ping", "a", nil, nil)
  loop.queueEvent("unheard", 1)
  equal(loop.pending(), 5)
  check.notes ""
  loop.runLoop()
  check.notes "1 3 a nil nil; 2 3 a nil nil; 3 3 a nil nil"
  equal(loop.pending(), 0)
end)

test("events are delivered in order, and events that a handler queues come later", function()
  local loop <close> = eventloop.new()
  loop.register("n", function(n)
    note(n)
    if n < 3 then
      loop.queueEvent("n", n + 10)
    elseif n == 12 then
      loop.stopLoop()
    end
    note "."
  end)
  loop.queueEvent("n", 1)
  loop.queueEvent("n", 2)
  loop.runLoop()
  check.notes "1; .; 2; .; 11; .; 12; ."
end)

test("a handler keeps the loop running until it is unregistered, and others may queue for it", function()
  local loop = eventloop.new()
  local off
  off = loop.register("message", function(text)
    note(text, check.elapsed())
    off()
    off()
  end)
  async.run(function()
    async.sleep(70)
    loop.queueEvent("message", "hello")
  end)
  loop.runLoop()
  check.notes "hello 70"
end)

test("handlers removed or added during a delivery are not called", function()
  local loop <close> = eventloop.new()
  local off
  loop.register("x", function()
    off()
    loop.register("x", noting "newcomer")
  end)
  off = loop.register("x", noting "left")
  loop.queueEvent("x")
  loop.setTimeout(5, loop.stopLoop)
  loop.runLoop()
  check.notes ""
end)

test("a handler that queues events for ever leaves others their turn", function()
  local loop <close> = eventloop.new()
  loop.register("again", function()
    loop.queueEvent "again"
  end)
  loop.queueEvent "again"
  async.run(function()
    for _ = 1, 10 do
      async.checkpoint()
    end
    loop.stopLoop()
  end)
  loop.runLoop()
  equal(loop.pending(), 2)
end)

-- --- Starting and stopping -----------------------------------------------------------------------

test("start callbacks run first and stop callbacks last", function()
  local loop = eventloop.new()
  loop.onStop(noting "stop 1")
  loop.onStop(noting "stop 2")
  loop.setTimeout(0, noting "timer")
  loop.onStart(noting "start 1")
  loop.onStart(function()
    note("start 2", loop.isRunning())
    loop.setTimeout(10, noting_time "set at the start")
  end)
  equal(loop.isRunning(), false)
  loop.runLoop()
  check.notes "start 1; start 2 true; timer; set at the start 10; stop 1; stop 2"
  equal(loop.isRunning(), false)
end)

test("a hook is called in each run, until it is taken away", function()
  local loop = eventloop.new()
  local off_start = loop.onStart(noting "start")
  local off_stop = loop.onStop(noting "stop")
  loop.runLoop()
  loop.runLoop()
  off_start()
  off_start()
  off_stop()
  off_stop()
  loop.runLoop()
  check.notes "start; stop; start; stop"
end)

test("onStart of a loop that runs is called soon", function()
  local loop = eventloop.new()
  loop.setTimeout(10, function()
    loop.onStart(noting_time "start")
    note "first"
  end)
  loop.runLoop()
  check.notes "first; start 10"
end)

test("a loop with nothing to do ends at once", function()
  eventloop.new().runLoop()
  equal(check.elapsed(), 0)
end)

test("stopLoop inside a callback ends the loop when the callback waits or is over, and no other begins", function()
  local loop = eventloop.new()
  loop.setTimeout(10, function()
    loop.stopLoop()
    loop.stopLoop()
    note("stopped", loop.isRunning())
  end)
  loop.setTimeout(10, noting "never")
  loop.setTimeout(20, noting "never")
  loop.runLoop()
  check.notes "stopped true"
  equal(check.elapsed(), 10)
  equal(loop.isRunning(), false)
  equal(loop.pending(), 2, "what is left")
end)

test("stopLoop closes callbacks that wait, in the order in which they began, and waits for their cleanup", function()
  local loop = eventloop.new()
  for i = 1, 3 do
    loop.setTimeout(i, function()
      local _ <close> = cleanup(i, 10)
      async.sleep(1000)
      note "never"
    end)
  end
  loop.setTimeout(5, loop.stopLoop)
  loop.runLoop()
  check.notes "1; 2; 3"
  equal(check.elapsed(), 15)
  equal(loop.pending(), 0)
end)

test("an event that a handler stops the loop at reaches the others, too, and the next is kept", function()
  local loop <close> = eventloop.new()
  loop.register("x", function(n)
    note("a", n)
    loop.stopLoop()
  end)
  loop.register("x", function(n)
    note("b", n)
  end)
  loop.queueEvent("x", 1)
  loop.queueEvent("x", 2)
  loop.runLoop()
  check.notes "a 1; b 1"
  loop.runLoop()
  check.notes "a 1; b 1; a 2; b 2"
end)

test("stopLoop of a loop that does not run does nothing, also to its next run", function()
  local loop = eventloop.new()
  loop.stopLoop()
  loop.setTimeout(10, noting "as ever")
  loop.stopLoop()
  loop.runLoop()
  loop.stopLoop()
  check.notes "as ever"
end)

test("another task may stop the loop", function()
  local loop = eventloop.new()
  loop.setTimeout(1000, nothing)
  async.run(function()
    async.sleep(30)
    loop.stopLoop()
  end)
  loop.runLoop()
  equal(check.elapsed(), 30)
  equal(loop.pending(), 1)
end)

test("a stopped loop goes on where it was when it is run again", function()
  local loop = eventloop.new()
  loop.setTimeout(10, loop.stopLoop)
  loop.setTimeout(30, noting_time "timer")
  local cancel = loop.setInterval(20, noting_time "tick")
  loop.runLoop()
  equal(loop.pending(), 2)
  async.sleep(35)
  check.notes ""
  loop.setTimeout(20, cancel)
  loop.runLoop()
  check.notes "timer 45; tick 60"
  equal(loop.pending(), 0)
  equal(check.elapsed(), 65)
end)

test("a loop can be run many times", function()
  local loop = eventloop.new()
  for i = 1, 100 do
    loop.setTimeout(1, noting_time(""))
    loop.runLoop()
    equal(check.elapsed(), i)
  end
end)

test("a loop that runs cannot be run once more, by its callbacks or by others", function()
  local loop = eventloop.new()
  loop.setTimeout(5, function()
    raises("eventloop.runLoop: the loop is running already", loop.runLoop)
    note "refused"
  end)
  async.run(function()
    async.sleep(1)
    raises("eventloop.runLoop: the loop is running already", loop.runLoop)
    note "refused"
  end)
  loop.runLoop()
  check.notes "refused; refused"
end)

-- --- Dispose -------------------------------------------------------------------------------------

test("a disposed loop has nothing left, and refuses everything but to be asked", function()
  local loop = eventloop.new()
  local cancel = loop.setTimeout(10, noting "never")
  local off = loop.register("x", noting "never")
  loop.queueEvent "x"
  loop.dispose()
  loop.dispose()
  cancel()
  off()
  equal(loop.pending(), 0)
  equal(loop.isRunning(), false)
  loop.stopLoop()
  raises("eventloop.runLoop: the loop is disposed", loop.runLoop)
  raises("eventloop.setTimeout: the loop is disposed", loop.setTimeout, 1, nothing)
  raises("eventloop.setInterval: the loop is disposed", loop.setInterval, 1, nothing)
  raises("eventloop.register: the loop is disposed", loop.register, "x", nothing)
  raises("eventloop.queueEvent: the loop is disposed", loop.queueEvent, "x")
  raises("eventloop.onStart: the loop is disposed", loop.onStart, nothing)
  raises("eventloop.onStop: the loop is disposed", loop.onStop, nothing)
end)

test("a loop disposed by its callback ends, and cleans up", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    local _ <close> = cleanup "cleaned"
    async.sleep(100)
  end)
  loop.setTimeout(200, noting "never")
  loop.onStop(noting "stop")
  loop.setInterval(10, function()
    loop.dispose()
    equal(loop.pending(), 1, "the callback that waits")
  end)
  loop.runLoop()
  check.notes "cleaned; stop"
  equal(check.elapsed(), 10)
  equal(loop.pending(), 0)
end)

test("a loop can be closed at the end of a block", function()
  local outer
  do
    local loop <close> = eventloop.new()
    loop.setTimeout(10, noting "never")
    outer = loop
  end
  equal(outer.pending(), 0)
  raises("disposed", outer.runLoop)
end)

-- --- One real loop -------------------------------------------------------------------------------

test("runLoop suspends only the task that calls it", function()
  local other = async.run(function()
    for _ = 1, 3 do
      async.sleep(10)
      note("task", check.elapsed())
    end
  end)
  orrery.loop.set_timeout(15, noting_time "timer")
  local loop = eventloop.new()
  loop.setTimeout(25, noting_time "private")
  loop.runLoop()
  note "over"
  other:wait()
  check.notes "task 10; timer 15; task 20; private 25; over; task 30"
end)

test("a private loop inside an event handler loses no events", function()
  local ids = {
    events:on("private", function()
      local loop = eventloop.new()
      loop.setTimeout(30, noting_time "private")
      loop.runLoop()
    end),
    events:on("other", function(n)
      note("other", n, check.elapsed())
    end),
  }
  events:emit "private"
  for i = 1, 4 do
    events:emit("other", i)
    async.sleep(10)
  end
  events:off("private", ids[1])
  events:off("other", ids[2])
  check.notes "other 1 0; other 2 10; other 3 20; private 30; other 4 30"
end)

test("a private loop sees only those events of the real loop that are queued in it", function()
  local loop <close> = eventloop.new()
  local id = events:on("window", function(data)
    loop.queueEvent("window", data)
  end)
  loop.register("window", function(data)
    note(data)
    loop.stopLoop()
  end)
  async.run(function()
    async.sleep(5)
    events:emit("window", "opened")
  end)
  loop.runLoop()
  events:off("window", id)
  check.notes "opened"
end)

test("private loops nest, and the outer one's timers go on", function()
  local outer <close> = eventloop.new()
  outer.setTimeout(10, function()
    local inner <close> = eventloop.new()
    inner.setTimeout(5, function()
      local innermost <close> = eventloop.new()
      innermost.setTimeout(30, noting_time "innermost")
      innermost.runLoop()
      note("inner", check.elapsed())
    end)
    inner.runLoop()
    note("outer", check.elapsed())
  end)
  outer.setInterval(20, noting_time "tick")
  outer.setTimeout(50, outer.stopLoop)
  outer.runLoop()
  check.notes "tick 20; tick 40; innermost 45; inner 45; outer 45"
end)

test("stopping an inner loop leaves the outer one alone; stopping the outer one ends the inner", function()
  local outer, inner = eventloop.new(), eventloop.new()
  outer.setTimeout(1, function()
    inner.setTimeout(5, inner.stopLoop)
    inner.setTimeout(100, noting "never")
    inner.runLoop()
    note("stopped", check.elapsed())
    inner.runLoop()
    note "never"
  end)
  outer.setTimeout(50, outer.stopLoop)
  outer.runLoop()
  check.notes "stopped 6"
  equal(check.elapsed(), 50)
  equal(inner.isRunning(), false)
  equal(inner.pending(), 0)
end)

test("two tasks run two loops at once", function()
  async.scope(function()
    for _, ms in ipairs { 20, 10 } do
      async.run(function()
        local loop = eventloop.new()
        loop.setTimeout(ms, noting_time(ms))
        loop.runLoop()
        note("over", ms)
      end)
    end
  end)
  check.notes "10 10; over 10; 20 20; over 20"
end)

-- --- Callbacks that wait -------------------------------------------------------------------------

test("callbacks may wait, side by side, and the loop waits for them", function()
  local loop = eventloop.new()
  for i = 1, 2 do
    loop.setTimeout(10, function()
      async.sleep(30 - 10 * i)
      note(i, check.elapsed())
    end)
  end
  loop.runLoop()
  check.notes "2 20; 1 30"
end)

test("the loop waits for tasks that a callback has started, and for their callbacks", function()
  local loop = eventloop.new()
  loop.setTimeout(10, function()
    async.run(function()
      async.sleep(10)
      loop.setTimeout(10, noting_time "set by a task")
    end)
  end)
  loop.runLoop()
  check.notes "set by a task 30"
end)

test("pending counts waiting callbacks, but not the running one", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    async.sleep(10)
    note(loop.pending())
  end)
  loop.setTimeout(2, function()
    note(loop.pending())
  end)
  loop.runLoop()
  check.notes "1; 0"
end)

-- --- Errors --------------------------------------------------------------------------------------

test("an error in a callback reaches the caller of runLoop unchanged, and waiting tasks are closed", function()
  local loop = eventloop.new()
  local problem = {}
  loop.setTimeout(1, function()
    local _ <close> = cleanup("cleaned", 5)
    async.sleep(100)
  end)
  loop.setTimeout(10, function()
    error(problem)
  end)
  loop.setTimeout(20, noting_time "left")
  loop.onStop(noting "stop")
  equal(select(2, pcall(loop.runLoop)), problem)
  equal(check.elapsed(), 15)
  check.notes "cleaned; stop"
  equal(loop.isRunning(), false)
  equal(loop.pending(), 1)
  loop.runLoop()
  check.notes "cleaned; stop; left 20; stop"
end)

test("errors of handlers and hooks, and of value nil, reach the caller, too", function()
  for _, method in ipairs { "onStart", "onStop" } do
    local loop <close> = eventloop.new()
    loop[method](function()
      error("in " .. method, 0)
    end)
    equal(select(2, pcall(loop.runLoop)), "in " .. method)
  end
  local loop <close> = eventloop.new()
  loop.register("x", function()
    error(nil)
  end)
  loop.queueEvent "x"
  loop.onStop(function()
    error "the second"
  end)
  local result = table.pack(pcall(loop.runLoop))
  equal(result[1], false)
  equal(result[2], select(2, pcall(error))) -- nil, and a text in Lua 5.5
end)

test("the first error is raised, and the others are not lost", function()
  local loop <close> = eventloop.new()
  for i = 1, 3 do
    loop.register("x", function()
      error("handler " .. i, 0)
    end)
  end
  loop.setTimeout(100, noting "never")
  loop.queueEvent "x"
  loop.onStop(function()
    error("stop", 0)
  end)
  equal(select(2, pcall(loop.runLoop)), "handler 1")
  equal(table.concat(async.current():errors(), ", "), "handler 1, handler 2, handler 3, stop")
end)

test("an error in the cleanup after stopLoop reaches the caller", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    local _ <close> = setmetatable({}, {
      __close = function()
        error("cleanup", 0)
      end,
    })
    async.sleep(100)
  end)
  loop.setTimeout(2, loop.stopLoop)
  equal(select(2, pcall(loop.runLoop)), "cleanup")
end)

test("a task that a callback has started fails the loop", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    async.run(function()
      async.sleep(1)
      error("below", 0)
    end)
  end)
  equal(select(2, pcall(loop.runLoop)), "below")
end)

-- --- Cancellation --------------------------------------------------------------------------------

test("closing the task that runs the loop cleans up everything of it", function()
  local loop = eventloop.new()
  loop.setTimeout(1, function()
    local _ <close> = cleanup("cleaned", 20)
    async.sleep(1000)
  end)
  loop.setTimeout(50, noting "never")
  loop.setInterval(5, nothing)
  loop.register("x", nothing)
  loop.onStop(function()
    async.sleep(10)
    note("stop", check.elapsed())
  end)
  local task = async.run(function()
    local ok, err = pcall(loop.runLoop)
    note(ok, err, loop.pending(), loop.isRunning())
    loop.runLoop()
  end)
  async.sleep(12)
  task:close()
  async.pawait(task)
  check.notes "cleaned; stop 42; false closed 0 false"
  loop.setTimeout(5, noting "runs again")
  loop.runLoop()
  check.notes "cleaned; stop 42; false closed 0 false; runs again; stop 57"
end)

test("a time limit around runLoop does the same", function()
  local loop = eventloop.new()
  loop.setInterval(10, noting_time "tick")
  raises("timeout", async.with_timeout, 25, loop.runLoop)
  check.notes "tick 10; tick 20"
  equal(loop.pending(), 0)
  equal(loop.isRunning(), false)
  async.sleep(100)
  check.notes "tick 10; tick 20"
end)

test("a loop cancelled at any moment is left as if it had ended", function()
  for ms = 0, 12 do
    local loop = eventloop.new()
    local began, ended = 0, 0
    local function callback()
      began = began + 1
      local _ <close> = setmetatable({}, {
        __close = function()
          ended = ended + 1
        end,
      })
      loop.setTimeout(2, callback)
      async.sleep(3)
      loop.queueEvent "x"
      async.sleep(1)
    end
    loop.onStart(callback)
    loop.register("x", function()
      async.sleep(2)
    end)
    local task = async.run(loop.runLoop)
    async.sleep(ms)
    task:close()
    async.pawait(task)
    equal(ended, began)
    equal(loop.pending(), 0)
    equal(loop.isRunning(), false)
  end
end)

test("a callback that closes the task that runs its loop ends both", function()
  local loop = eventloop.new()
  local task
  task = async.run(function()
    loop.setTimeout(10, function()
      task:close()
      note "goes on to its next wait"
      async.sleep(1)
      note "never"
    end)
    loop.runLoop()
  end)
  equal(select(2, async.pawait(task)), "closed")
  check.notes "goes on to its next wait"
  equal(loop.pending(), 0)
end)

-- --- A factory -----------------------------------------------------------------------------------

-- A library that polls and takes a factory of loops, like libraries that must not sleep.
local function new_poller(fetch, new_loop)
  return function(limit)
    local loop = new_loop()
    local answer
    local function finish(value)
      answer = value
      loop.stopLoop()
    end
    local function attempt()
      local value = fetch()
      if value then
        return finish(value)
      end
      loop.setTimeout(100, attempt)
    end
    loop.setTimeout(limit, function()
      finish "timeout"
    end)
    loop.onStart(attempt)
    loop.runLoop()
    return answer
  end
end

test("a library with a factory of loops can be tested on the virtual clock", function()
  local made = {}
  local function factory()
    made[#made + 1] = eventloop.new()
    return made[#made]
  end
  local tries = 0
  local poll = new_poller(function()
    tries = tries + 1
    return tries == 4 and "answer" or nil
  end, factory)
  equal(poll(1000), "answer")
  equal(check.elapsed(), 300)
  equal(made[1].isRunning(), false)
  equal(made[1].pending(), 1, "the time limit")
  equal(poll(250), "timeout")
  equal(check.elapsed(), 550)
  equal(tries, 7)
  equal(new_poller(function() return "at once" end, eventloop.new)(10), "at once")
end)

-- --- Misuse --------------------------------------------------------------------------------------

test("methods are called with a dot or with a colon", function()
  local loop <close> = eventloop.new()
  loop:setTimeout(5, noting "colon")
  loop.setTimeout(6, noting "dot")
  loop:register("x", note)
  loop:queueEvent("x", 1, 2)
  equal(loop:pending(), 4)
  loop:setTimeout(10, function()
    loop:stopLoop()
  end)
  loop:runLoop()
  equal(loop:isRunning(), false)
  check.notes "1 2; colon; dot"
end)

test("misuse is an error that says what was wrong", function()
  local loop <close> = eventloop.new()
  for _, method in ipairs { "setTimeout", "setInterval" } do
    local set = loop[method]
    local words = "eventloop." .. method .. ": expected milliseconds, "
    raises(words .. "at least 0, got -1", set, -1, nothing)
    raises(words .. "at least 0, got " .. 0 / 0, set, 0 / 0, nothing)
    raises(words .. "at least 0, got inf", set, math.huge, nothing)
    raises(words .. "got string", set, "10", nothing)
    raises(words .. "got nil", set)
    raises(words .. "got function", set, nothing, 10)
    raises("eventloop." .. method .. ": expected a function, got nil", set, 10)
  end
  for _, method in ipairs { "onStart", "onStop" } do
    raises("eventloop." .. method .. ": expected a function, got table", loop[method], {})
  end
  raises("eventloop.register: expected the name of an event, got number", loop.register, 1, nothing)
  raises("eventloop.register: expected the name of an event, got an empty string", loop.register, "", nothing)
  raises("eventloop.register: expected a function, got nil", loop.register, "x")
  raises("eventloop.queueEvent: expected the name of an event, got nil", loop.queueEvent)
  equal(loop.pending(), 0)
  local err = raises("eventloop", function()
    loop.setTimeout(-1, nothing)
  end)
  check.truthy(err:find "eventloop.lua:%d+: eventloop.setTimeout", "the error names the line of the caller: " .. err .. ": this")
end)

test("the longest time is not too long", function()
  local loop = eventloop.new()
  loop.setTimeout(1e300, noting "never")
  loop.setTimeout(5, loop.stopLoop)
  loop.runLoop()
  check.notes ""
end)

-- --- How it stands -------------------------------------------------------------------------------

test("the state of a loop is new, running, stopped, dry, failed or disposed", function()
  local loop = eventloop()
  note(loop.state())
  loop.setTimeout(1, function() note(loop.state()) end)
  loop.runLoop()
  note(loop:state())
  local cancel = loop.setInterval(1, loop.stopLoop)
  note(loop.state())
  loop.runLoop()
  note(loop.state())
  cancel()
  loop.stopLoop() -- does nothing, because it does not run
  loop.setTimeout(1, error)
  note(pcall(loop.runLoop))
  note(loop.state())
  loop.runLoop()
  note(loop.state())
  loop.dispose()
  note(loop.state())
  check.notes "new; running; dry; dry; stopped; false nil; failed; dry; disposed"
end)

test("a loop whose task was closed was stopped", function()
  local loop = eventloop()
  local task = async.run(function()
    loop.setInterval(10, nothing)
    loop.runLoop()
  end)
  async.sleep(15)
  equal(loop.state(), "running")
  task:close()
  async.pawait(task)
  equal(loop.state(), "stopped")
  equal(loop.pending(), 0)
end)

-- --- What it leaves behind -----------------------------------------------------------------------

local testing = orrery.testing

local function left()
  local words = {}
  for _, thing in ipairs(testing.leaks()) do
    if thing.kind ~= "task" then
      check.truthy(thing.created:match "eventloop.lua:%d+$", thing.kind .. " was created at " .. thing.created)
      words[#words + 1] = thing.kind .. (thing.name and " " .. thing.name or "") .. (thing.state and ": " .. thing.state or "")
    end
  end
  return table.concat(words, "; ")
end

test("a loop that was never run is left behind, with all that it has", function()
  local loop = eventloop()
  equal(left(), "private loop: was never run")
  loop.setTimeout(100, nothing)
  loop.setInterval(20, nothing)
  loop.register("x", nothing)
  equal(left(), "private loop: was never run; private loop's timer: fires in 100.0 ms; "
    .. "private loop's timer: repeats every 20.0 ms; private loop's event handler x")
  loop.dispose()
  equal(left(), "")
  equal(loop.pending(), 0)
end)

test("callbacks and tasks that outlast a run are left behind", function()
  local loop = eventloop()
  loop.runLoop()
  equal(left(), "")
  local cancel = loop.setTimeout(50, nothing)
  equal(left(), "private loop's timer: fires in 50.0 ms")
  cancel()
  equal(left(), "")
  loop.setInterval(10, loop.stopLoop)
  loop.register("x", nothing)
  loop.runLoop()
  equal(left(), "private loop's timer: repeats every 10.0 ms; private loop's event handler x")
  loop.dispose()
end)

test("a time limit beside the work, and then stopLoop, leaves nothing behind", function()
  local function fetch(fails)
    local loop, answer = eventloop(), nil
    loop.setTimeout(1000, function() answer = "too late" loop.stopLoop() end)
    loop.setTimeout(10, function()
      answer = not fails and "fetched" or error "failed"
      loop.stopLoop()
    end)
    loop.runLoop()
    return answer
  end
  equal(fetch(), "fetched")
  equal(pcall(fetch, true), false)
  equal(left(), "")
end)

test("a running loop tells what it has", function()
  local loop = eventloop()
  local task = async.run(function()
    loop.setTimeout(100, nothing)
    loop.runLoop()
  end)
  async.sleep(1)
  equal(left(), "private loop's timer: fires in 99.0 ms")
  task:close()
  async.pawait(task)
  equal(left(), "")
end)

test("it runs or raises wherever the C stack ends", { leaks = true }, function()
  local ran, raised = 0, 0
  for depth = 100, 215 do
    local function dive(levels)
      if levels > 0 then
        return pcall(dive, levels - 1)
      end
      local loop = eventloop.new()
      loop.setTimeout(1, nothing)
      loop.onStop(nothing)
      loop.runLoop()
      return "ran"
    end
    local results = table.pack(vim.async.pawait(vim.async.run({ detached = true }, dive, depth)))
    if results[results.n] == "ran" then
      ran = ran + 1
    else
      raised = raised + 1
      check.truthy(tostring(results[results.n]):find "stack overflow", "it is for the stack: " .. tostring(results[results.n]) .. ": this")
    end
  end
  check.truthy(ran > 0 and raised > 0, "some run, and some do not")
end)
