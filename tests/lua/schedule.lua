-- schedule: when callbacks run, in which order, how many, and what happens to errors.
local check = require "check"
local test, equal, raises = check.test, check.equal, check.raises
local async, schedule = vim.async, vim.schedule

local turn = async.checkpoint

test("a callback runs in the next turn, with its arguments, nils too", function()
  local got
  schedule(function(...) got = table.pack(...) end, 1, nil, "x", nil)
  equal(got, nil)
  turn()
  equal(got.n, 4)
  equal(got[1] .. got[3], "1x")
end)

test("callbacks run in the order in which they were scheduled, at most 16 a turn", function()
  local seen, turns = {}, {}
  for i = 1, 40 do
    schedule(function() seen[#seen + 1] = i end)
  end
  while #seen < 40 do
    async.checkpoint()
    turns[#turns + 1] = #seen
  end
  equal(table.concat(turns, " "), "16 32 40")
  for i = 1, 40 do equal(seen[i], i) end
end)

test("a kept handle of a callback never refers to a later callback", function()
  local handles = {}
  local function keep(result)
    local number = #handles + 1
    handles[number] = async.current()
    if result == "late" then async.sleep(1) end
    return result, number
  end
  schedule(keep, "a")
  schedule(function() end)
  schedule(keep, "late")
  schedule(keep, "c")
  async.sleep(5)
  for _ = 1, 40 do schedule(function() end) end
  async.sleep(5)
  equal(#handles, 3)
  for i, result in ipairs { "a", "late", "c" } do
    equal(handles[i].name, "scheduled")
    equal(handles[i]:status(), "completed")
    local got, number = handles[i]:wait()
    equal(got, result)
    equal(number, i)
  end
  check.truthy(handles[1] ~= handles[2] and handles[2] ~= handles[3])
end)

test("a callback does not see the coroutine or the hook of an earlier one", function()
  local seen = {}
  local function run(fn)
    schedule(fn)
    async.sleep(2)
  end
  run(function() seen[1] = coroutine.running() end)
  run(function() seen[2] = coroutine.running() end)
  check.truthy(seen[1] ~= seen[2])
  equal(coroutine.status(seen[1]), "dead")
  if debug and debug.sethook then
    run(function() debug.sethook(function() end, "l") end)
    run(function() seen[3] = debug.gethook() == nil end)
    equal(seen[3], true)
  end
end)

test("callbacks that wait, fail, have children or are over at once take one another's places", function()
  local done, over = 0, {}
  for i = 1, 200 do
    schedule(function()
      if i % 5 == 1 then async.sleep(i % 7) end
      if i % 5 == 2 then async.run(function() async.sleep(3) done = done + 1 end) end
      if i % 5 == 3 then async.await(async.run(function() return i end)) end
      over[#over + 1] = i
    end)
  end
  async.sleep(100)
  equal(#over, 200)
  equal(done, 40)
end)

test("a callback that a callback schedules runs a turn later", function()
  local seen = {}
  schedule(function()
    seen[#seen + 1] = "a"
    schedule(function() seen[#seen + 1] = "c" end)
  end)
  schedule(function() seen[#seen + 1] = "b" end)
  turn()
  equal(table.concat(seen), "ab")
  async.checkpoint()
  equal(table.concat(seen), "abc")
end)

test("a callback that schedules itself for ever leaves others their turns", function()
  local count, stop = 0, false
  local function again()
    count = count + 1
    if not stop then schedule(again) end
  end
  schedule(again)
  for _ = 1, 10 do
    async.checkpoint()
  end
  stop = true
  check.truthy(count >= 5 and count <= 11, count .. " in ten turns")
  async.sleep(1)
end)

test("an error is reported and counted, and the rest still run", { errors = true }, function()
  local before, seen = vim.runtime.stats().schedule_errors, 0
  for i = 1, 5 do
    schedule(function()
      if i % 2 == 0 then
        async.await(async.run(error, "expected: a scheduled callback fails"))
      end
      seen = seen + 1
    end)
  end
  async.sleep(1)
  equal(seen, 3)
  equal(vim.runtime.stats().schedule_errors - before, 2)
end)

test("nothing that is scheduled begins while a slice of another task is only suspended", function()
  local handles, start = {}, os.clock()
  for i = 1, 100 do
    handles[i] = schedule(function() end)
  end
  repeat until os.clock() - start > 0.02
  equal(vim.runtime.stats().scheduled, 100)
  for _, handle in ipairs(handles) do
    equal(handle:cancel(), true)
  end
end)

test("at most a thousand callbacks are pending, and cancelled ones make room", function()
  local handles, ran = {}, 0
  for i = 1, 1000 do
    handles[i] = schedule(function() ran = ran + 1 end)
  end
  equal(vim.runtime.stats().scheduled, 1000)
  raises("Schedule queue full (max 1000 callbacks)", schedule, print)
  for i = 1, 1000, 2 do
    equal(handles[i]:cancel(), true)
    equal(handles[i]:cancel(), false)
  end
  schedule(function() ran = ran + 1 end)
  equal(vim.runtime.stats().scheduled, 501)
  async.sleep(10)
  equal(ran, 501)
  equal(handles[2]:cancel(), false)
end)

test("callbacks may wait", function()
  local seen
  schedule(function()
    async.sleep(5)
    seen = true
  end)
  async.sleep(6)
  equal(seen, true)
end)

test("schedule_wrap keeps the arguments", function()
  local got
  local handle = vim.schedule_wrap(function(...) got = table.pack(...) end)(nil, 2, nil)
  turn()
  equal(got.n, 3)
  equal(got[2], 2)
  equal(handle:cancel(), false)
end)

test("misuse is told", function()
  raises("bad argument #1 to 'schedule' (function expected, got no value)", function() schedule() end)
  raises("function expected", schedule, 5)
end)

-- --- Letting it run ------------------------------------------------------------------------------

local waits = { checkpoint = async.checkpoint, ["sleep(0)"] = function() async.sleep(0) end }

for name, wait in pairs(waits) do
  test("after one " .. name .. ", what was scheduled before has run", function()
    local seen = {}
    for i = 1, 16 do
      schedule(function() seen[#seen + 1] = i end)
      if i % 4 == 0 then
        wait()
        equal(#seen, i)
      end
    end
  end)

  test("one " .. name .. " is enough, whoever schedules, and however busy the others are", function()
    local stop = false
    for _ = 1, 50 do
      async.run(function() while not stop do async.checkpoint() end end)
    end
    for _ = 1, 10 do
      local ran = 0
      local made = async.run(function()
        async.checkpoint()
        schedule(function() ran = ran + 1 end)
      end)
      async.await(made)
      schedule(function() ran = ran + 1 end)
      wait()
      equal(ran, 2)
    end
    stop = true
  end)

  test("after " .. name .. ", a callback has come to its first wait, and one that was cancelled is not waited for", function()
    local steps = 0
    schedule(function() steps = 1 async.sleep(10) steps = 2 end)
    equal(schedule(function() steps = 100 end):cancel(), true)
    wait()
    equal(steps, 1)
    async.sleep(20)
    equal(steps, 2)
  end)
end

test("a closed task does not wait for its scheduled callbacks", function()
  local task = async.run(function()
    schedule(function() end)
    async.checkpoint()
  end)
  task:close()
  equal(select(2, async.pawait(task)), "closed")
  async.checkpoint()
end)

test("testing.flush runs the callbacks that are pending now and returns how many", function()
  local testing = require("orrery").testing
  local seen = 0
  for _ = 1, 100 do
    schedule(function()
      seen = seen + 1
      schedule(function() seen = seen + 1000 end)
    end)
  end
  schedule(function() end):cancel()
  equal(testing.flush(), 100)
  equal(seen % 1000, 100)
  equal(testing.flush() > 0, true)
  equal(seen, 100 + 100 * 1000)
  equal(testing.flush(), 0)
end)

test("callbacks that have begun are counted", function()
  local before = vim.runtime.stats().schedule_run
  for _ = 1, 20 do
    schedule(function() async.sleep(1) end)
  end
  schedule(function() end):cancel()
  equal(vim.runtime.stats().schedule_run - before, 0)
  async.sleep(10)
  equal(vim.runtime.stats().schedule_run - before, 20)
end)
