-- The API in a stock Lua, and the guarantees of `orrery.run`.  Prints failures; ends with "N
-- passed, N failed".
local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop

local passed, failed = 0, 0

local function test(name, fn)
  local ok, err = xpcall(fn, debug.traceback)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print("FAILED: " .. name .. ": " .. tostring(err))
  end
end

local function equal(got, expected)
  if got ~= expected then
    error(("expected %s, got %s"):format(expected, got), 2)
  end
end

local function refused(pattern, fn, ...)
  local ok, err = pcall(fn, ...)
  if ok or not tostring(err):find(pattern) then
    error(("expected an error like '%s', got %s"):format(pattern, err), 2)
  end
end

test("run passes arguments in and results out, nils too", function()
  local results = table.pack(orrery.run(function(...)
    async.sleep(1)
    return select("#", ...), ...
  end, nil, 2, nil))
  equal(results.n, 4)
  equal(results[1], 3)
  equal(results[3], 2)
end)

test("run ends when the whole tree has", function()
  local done = false
  orrery.run(function()
    async.run(function()
      async.sleep(10)
      done = true
    end)
  end)
  equal(done, true)
end)

test("run raises the error of its function, the same value", function()
  local thrown = { code = 3 }
  local ok, err = pcall(orrery.run, function()
    async.sleep(1)
    error(thrown)
  end)
  equal(ok, false)
  equal(err, thrown)
  equal(select("#", pcall(orrery.run, error)), 2) -- nil is an error value, too
end)

test("run raises the error of a child that fails when its function has returned", function()
  refused("late child", orrery.run, function()
    async.run(function()
      async.sleep(1)
      error("late child")
    end)
  end)
end)

test("run refuses what is not a function, and names its caller", function()
  refused("bad argument #1 to 'run' %(function expected, got number%)", orrery.run, 3)
  refused("^[^:]*api.lua:%d+: bad argument", function() orrery.run(nil) end)
end)

test("outside of run, messages name run", function()
  refused("async.sleep: not inside a task; start one with orrery.run%(fn%)", async.sleep, 1)
  refused("worker.map: not inside a task; start one with orrery.run%(fn%)", orrery.worker.map, "return 1", { 1 })
end)

test("names that do not exist get a hint", function()
  refused("async has no 'spawn': write async.run%(fn%)$", orrery.run, function() async.spawn(print) end)
  refused("did you mean 'async'%?$", orrery.run, function() orrery.asnyc.run(print) end)
end)

test("run raises when its tasks would wait for ever, and cleans up", function()
  local cleaned
  refused("orrery.run: deadlock: tasks wait, and nothing can wake them", orrery.run, function()
    local _ <close> = setmetatable({}, { __close = function() cleaned = true end })
    async.event():wait()
  end)
  equal(cleaned, true)
  equal(orrery.run(function() return 5 end), 5)
end)

test("run inside run is refused, and does no harm", function()
  orrery.run(function()
    refused("called inside a task", orrery.run, print)
    refused("called inside a task", orrery.run)
    refused("called inside a task", coroutine.wrap(function() orrery.run(print) end))
    async.sleep(1)
  end)
end)

test("timers, scheduled callbacks and detached tasks wait between runs, and go on in the next", function()
  local seen = {}
  loop.set_timeout(1, function() seen.timer = true end)
  orrery.schedule(function() seen.scheduled = true end)
  orrery.run(function()
    async.run({ detached = true }, function()
      async.sleep(20)
      seen.detached = true
    end)
  end)
  equal(seen.detached, nil)
  equal(orrery.run(), nil) -- runs until nothing is left
  equal(seen.timer and seen.scheduled and seen.detached, true)
end)

test("run works in a coroutine of plain code", function()
  equal(coroutine.wrap(function()
    return orrery.run(function()
      async.sleep(1)
      return "inside"
    end)
  end)(), "inside")
end)

test("many runs, one after another", function()
  for i = 1, 1000 do
    equal(orrery.run(function() async.checkpoint() return i end), i)
  end
end)

test("structure, time limits, events, values", function()
  orrery.run(function()
    local ok, err = pcall(async.with_timeout, 5, async.sleep, 1e6)
    equal(ok, false)
    equal(err, "timeout")
    local heard
    orrery.events:on("ping", function(data) heard = data end)
    orrery.events:emit("ping", "pong")
    equal(heard, "pong")
    orrery.events:clear("ping")
    equal(orrery.json.encode({ 1, 2 }), "[1,2]")
  end)
end)

test("a worker runs on another thread", function()
  equal(orrery.run(function()
    local double = orrery.worker.new("local n = ... return n * 2")
    return double:call(21)
  end), 42)
end)

test("a task with a deadline is ended, and a fair one lets others run", function()
  orrery.run(function()
    local ok, err = async.pawait(async.run({ deadline = 20 }, function() while true do end end))
    equal(ok, false)
    equal(err, "Script execution timeout")
    local stop = false
    async.run({ fair = true }, function() while not stop do end end)
    async.sleep(1)
    stop = true
  end)
end)

test("a task that nobody holds is collected", function()
  local weak = setmetatable({}, { __mode = "k" })
  orrery.run(function() weak[async.run(async.sleep, 1)] = true end)
  collectgarbage()
  collectgarbage()
  equal(next(weak), nil)
end)

test("requiring it again is the same module, whichever require one has", function()
  local first = orrery
  package.loaded.orrery = nil
  equal(require "orrery", first)
end)

print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0, true)
