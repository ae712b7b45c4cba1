-- Tests that wait for something that never comes.

local async = require("orrery").async

it("waits for an event that nobody sets", function()
  async.event():wait()
end)

it("has tasks that wait for one another", function()
  local a, b = async.queue(), async.queue()
  async.run("miller", function() b:put(a:get()) end)
  async.run("baker", function() a:put(b:get()) end)
end)

it("waits in a shield, so that it must be ended by force", function()
  async.shield(function() async.event():wait() end)
end)

it("catches the cancellation", function()
  pcall(function() async.event():wait() end)
end)

describe("a deadlock in before_each", function()
  before_each(function() async.future():wait() end)
  it("is the test's", function() end)
end)

describe("after_each", function()
  local cleaned
  after_each(function() async.sleep(5) cleaned = true end)
  it("runs after a deadlock", function() async.event():wait() end)
  it("as one can see", function() expect(cleaned):to_be(true) end)
end)

describe("a deadlock in before_all", function()
  before_all(function() async.event():wait() end)
  it("fails the tests", function() end)
end)

it("is no trouble for the next test", function() async.sleep(3600e3) end)
