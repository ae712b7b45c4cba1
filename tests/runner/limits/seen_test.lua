-- A task that is ended at its deadline does not fail the test, if the test observes it.
local orrery = require "orrery"
local async = orrery.async

local function loop_for_ever()
  while true do end -- luacheck: ignore
end

local function run_away(options)
  options = options or {}
  options.deadline = 20
  return async.run(options, function()
    async.sleep(1)
    loop_for_ever()
  end)
end

it("expects the time-out of a task that it awaits", function()
  local ok, err = async.pawait(run_away())
  expect(ok):to_be(false)
  expect(err):to_match "timeout"
end)
it("expects the time-out of one that never waits", function()
  local ok, err = async.pawait(async.run({ deadline = 20 }, loop_for_ever))
  expect(ok):to_be(false)
  expect(err):to_match "timeout"
end)
it("expects the time-out of a child", function()
  run_away()
  expect(function() async.sleep(1000) end):to_raise "timeout"
end)
it("expects one in a list, by pwait, and told afterwards", function()
  for _, err in async.iter { run_away(), run_away { detached = true } } do
    expect(err):to_match "timeout"
  end
  expect((run_away { detached = true }:pwait())):to_be(false)
  local told
  run_away { detached = true }:on_complete(function(err) told = err end)
  async.sleep(100)
  expect(told):to_match "timeout"
end)
it("does not see the time-out of a detached task", function()
  run_away { detached = true }
  async.sleep(10)
end)
it("does not see that of a callback, though it sees another", function()
  orrery.schedule(function() async.await(run_away { name = "scheduled work" }) end)
  async.pawait(run_away())
  async.sleep(10)
end)
it("may let all errors pass", { errors = true }, function()
  run_away { detached = true }
  async.sleep(10)
end)
it("fails by that of a task that it awaits, and does not expect it", function()
  async.await(run_away { name = "awaited" })
end)
it("fails by something else, and has seen one before", function()
  async.pawait(run_away())
  error "something else"
end)
