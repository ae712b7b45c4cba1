-- A failure comes first: the task that is told of it goes on before ready siblings.

local check = require "check"
local async = require("orrery").async
local test, equal, note, notes = check.test, check.equal, check.note, check.notes
local run, sleep = async.run, async.sleep

-- Six children that are ready at the same time; the third fails.
local function siblings(count, failing)
  local tasks = {}
  for i = 1, count or 6 do
    tasks[i] = run(function()
      sleep(1)
      if i == (failing or 3) then error("E", 0) end
      note(i)
    end)
  end
  return tasks
end

-- The ways in which the parent waits while they fail.
local waits = {
  sleep = function() sleep(5) end,
  ["sleep that ends at the same time"] = function() sleep(1) end,
  ["await of a sibling that comes later"] = function(tasks) async.await(tasks[6]) end,
  ["await of the one that fails"] = function(tasks) async.await(tasks[3]) end,
  ["await of one that ends just before"] = function(tasks) async.await(tasks[2]) sleep(5) end,
  await_all = function(tasks) async.await_all(tasks) end,
  iter = function(tasks)
    for _, err in async.iter(tasks) do
      if err then error(err, 0) end
    end
  end,
  event = function() async.event():wait() end,
  queue = function() async.queue():get() end,
  callback = function() async.await(function() end) end,
  ["nested scope"] = function() async.scope(function() async.scope(sleep, 5) end) end,
  ["time limit"] = function() async.with_timeout(5, sleep, 10) end,
  ["end of its body"] = function() end,
}

for what, wait in pairs(waits) do
  test("siblings do not run after a failure: the parent waits in " .. what, function()
    local ok, err = async.pawait(run({ detached = true }, function() wait(siblings()) end))
    equal(ok, false)
    equal(err, "E")
    notes "1; 2"
  end)
end

test("a scope that fails ends its children before they run on", function()
  equal(select(2, pcall(async.scope, siblings)), "E")
  notes "1; 2"
end)

test("the parent of a deep failure hears of it before its other children run", function()
  local function deep(levels)
    if levels == 0 then
      sleep(1)
      error("E", 0)
    end
    run(deep, levels - 1)
    run(sleep, 100) -- must be cancelled before the failure goes up
    if levels % 2 == 0 then sleep(100) end
  end
  local ok, err = async.pawait(run({ detached = true }, function()
    siblings(2, 0)
    run(deep, 20)
    siblings(3, 0)
    sleep(100)
  end))
  equal(ok, false)
  equal(err, "E")
  notes "1; 2"
end)

test("a failure passes through awaiting tasks before other tasks run", function()
  local ok, err = async.pawait(run({ detached = true }, function()
    local fails = run(function() sleep(1) error("E", 0) end)
    run(function()
      local awaits = run(async.await, fails)
      async.await(awaits)
    end)
    siblings(3, 0)
    sleep(100)
  end))
  equal(ok, false)
  equal(err, "E")
  notes ""
end)

test("a parent that catches the failure goes on first, and then the siblings do", function()
  async.await(run(function()
    siblings()
    note(select(2, pcall(sleep, 5)))
    sleep(1)
    note "after"
  end))
  notes "1; 2; E; 4; 5; 6; after"
end)

test("of several failures each is told in its turn", function()
  async.await(run(function()
    for i = 1, 4 do
      run(function() sleep(1) error("E" .. i, 0) end)
      run(function() sleep(1) note(i) end)
    end
    for _ = 1, 4 do
      note(select(2, pcall(sleep, 5)))
    end
  end))
  notes "E1; 1; E2; 2; E3; 3; E4; 4"
end)

-- Four children that an event wakes.  What they were granted stays, even if they are cancelled
-- meanwhile.
local function woken(options, wait)
  return run({ detached = true }, function()
    local started = async.event()
    for i = 1, 4 do
      run(options, function()
        started:wait()
        if i == 2 then error("E", 0) end
        note(i)
      end)
    end
    started:set()
    local _, err = pcall(wait)
    note(err)
    error(err, 0)
  end)
end

test("a parent that lets others go first is still told before they run on", function()
  equal(async.pawait(woken({}, function() while true do async.checkpoint() end end)), false)
  notes "1; E; 3; 4"
end)

test("fair siblings do not run on before the parent is told either", function()
  equal(async.pawait(woken({ fair = true }, function() sleep(5) end)), false)
  notes "1; E; 3; 4"
end)

test("a grant that came before the failure stays, and is picked up first", function()
  local queue = async.queue()
  async.await(run(function()
    run(function() sleep(1) queue:put "item" error("E", 0) end)
    run(function() sleep(1) note "sibling" end)
    note(queue:get())
    note(select(2, pcall(sleep, 5)))
  end))
  notes "item; E; sibling"
end)

test("tasks that interrupt each other for ever do not keep the others waiting", function()
  local others = 0
  local other = run(function()
    while true do
      sleep(0)
      others = others + 1
    end
  end)
  local rounds = 0
  while others < 3 do
    rounds = rounds + 1
    pcall(async.scope, function()
      run(function()
        pcall(sleep, 100)
        error("again", 0)
      end)
      run(error, "first", 0)
      sleep(100)
    end)
  end
  other:close()
  check.truthy(rounds > 0)
end)
