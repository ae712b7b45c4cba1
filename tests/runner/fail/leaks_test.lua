-- What is left behind is told, and is gone when the next test begins.

local orrery = require "orrery"
local async, loop, events, testing = orrery.async, orrery.loop, orrery.events, orrery.testing

local function start_lost_task()
  return async.run({ name = "lost", detached = true }, function()
    async.sleep(1e6)
  end)
end

it("a detached task", function() start_lost_task() end)
it("a detached task that has a child", function()
  async.run({ name = "parent", detached = true }, function()
    async.run("child", async.sleep, 1e6)
    async.event():wait()
  end)
end)
it("a timer", function() loop.set_timeout(60000, print) end)
it("a repeating timer", function() loop.set_interval(5, function() end) end)
it("a handler", function() events:on({ "window:open", "window:close" }, print) end)
it("a scheduled callback that schedules itself", function()
  local function again() orrery.schedule(again) end
  again()
end)
it("a task that a callback has started", function()
  loop.set_timeout(5, function() start_lost_task() end)
  async.sleep(10)
end)
it("a task that clings to life", function()
  async.run({ name = "clinging", detached = true }, function()
    async.shield(async.sleep, 1e9)
  end)
end)
it("a job of a worker", function()
  local worker = orrery.worker.new(function() while true do end end) -- luacheck: ignore
  worker:run(print)
end)
it("nothing of that is here now", function()
  expect(testing.leaks()):to_have_length(1) -- the test itself
  expect(events:emit "window:open"):to_be(0)
end)

it("what is allowed", { leaks = true }, function() start_lost_task() loop.set_interval(5, print) end)
it("is taken away, too", function()
  async.sleep(100)
  expect(testing.leaks()):to_have_length(1)
end)

describe("what before_each makes", function()
  before_each(function() events:on("x", print) end)
  it("is the test's", function() end)
end)

describe("what before_all makes", function()
  local timer
  before_all(function() timer = loop.set_interval(5, function() end) end)
  after_all(function() timer:close() end)
  it("is not", function() async.sleep(12) end)
end)

it("children end with the test, and are no leak", function()
  async.run(async.sleep, 1e6)
end)
it("what ends in the same turn is none", function()
  orrery.schedule(function() end)
  async.run({ detached = true }, async.checkpoint)
end)
