-- Hooks that run before and after a test, their order, and tests whose hooks fail.

local async = require("orrery").async
local log = {}
local function note(word) log[#log + 1] = word end

describe("hooks", function()
  before_all(function() note "all" end)
  before_each(function() note "outer" end)
  after_each(function() note "/outer" end)
  after_all(function() note "/all" end)

  describe("inside", function()
    before_each(function() note "inner" end)
    after_each(function() note "/inner" end)
    it("run from the outside in, and back", function() note "test" end)
  end)

  it("ran in this order", function()
    expect(table.concat(log, " ")):to_equal "all outer inner test /inner /outer outer"
  end)
end)

it("after_all has run", function() expect(log[#log]):to_be "/all" end)

describe("a server that before_each starts", function()
  local server, served
  before_each(function()
    served = 0
    server = async.run("server", function()
      while true do
        async.sleep(1)
        served = served + 1
      end
    end)
  end)
  after_each(function() server:close() end)
  it("serves during the test, and ends after it", function()
    async.sleep(100.5)
    expect(served):to_be(100)
  end)
  it("ends also when the test fails", function() error("as it must", 0) end)
end)

describe("a server that before_all starts", function()
  local server, served
  before_all(function()
    served = 0
    server = async.run("server", function()
      while true do
        async.sleep(10)
        served = served + 1
      end
    end)
  end)
  after_all(function() server:close() end)
  it("serves one test", function() async.sleep(100.5) expect(served):to_be(10) end)
  it("and the next", function() async.sleep(100) expect(served):to_be(20) end)
end)

describe("before_each that fails", function()
  before_each(function() error("no database", 0) end)
  after_each(function() note "cleaned" end)
  it("fails the test, which does not run", function() note "never" end)
end)

it("but after_each ran", function() expect(log[#log]):to_be "cleaned" end)

describe("after_each that fails", function()
  after_each(function() error("cannot clean", 0) end)
  it("fails the test", function() end)
end)

describe("before_all that fails", function()
  before_all(function() error("nothing works", 0) end)
  it("fails this", function() end)
  it("and this", function() end)
end)

describe("after_all that fails", function()
  after_all(function() error("the end is bad", 0) end)
  it("harms no test", function() end)
end)

it("defines no test inside a test", function()
  it("never", function() end)
end)
