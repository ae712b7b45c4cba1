-- Every matcher, passing and failing; tests/check-runner compares the texts of the failures.

local function raiser() error("out of paper", 0) end

describe("what holds", function()
  it("with expect", function()
    local list = { 1, 2, { three = 3 } }
    expect(list):to_equal { 1, 2, { three = 3 } }
    expect(list):to_be(list)
    expect(list):not_to_be { 1, 2, { three = 3 } }
    expect(0):to_be_truthy()
    expect(nil):to_be_falsy()
    expect(nil):to_be_nil()
    expect(0 / 0):to_equal(0 / 0)
    expect("text"):to_be_a "string"
    expect(1):to_be_a "integer"
    expect("key = value"):to_match "^%a+ ="
    expect(0.1 + 0.2):to_be_near(0.3)
    expect(10):to_be_near(11, 1)
    expect(3):to_be_greater_than(2)
    expect(2):to_be_less_than(3)
    expect(list):to_contain { three = 3 }
    expect("haystack"):to_contain "st"
    expect({ a = 1, b = 2 }):to_contain { b = 2 }
    expect(list):to_have_length(3)
    expect(raiser):to_raise()
    expect(raiser):to_raise "out of"
    expect(raiser):to_raise "^out of %a+$"
    expect(function() end):not_to_raise()
    expect(true):to_be_true():not_to_be_false()
  end)

  it("with assert, which is still Lua's own", function()
    expect(assert(5, "unused")):to_be(5)
    expect(function() assert(nil, "said by Lua's") end):to_raise "said by Lua's"
    assert.equal(1, 1)
    assert.are.equal("a", "a")
    assert.are_not.equal({}, {})
    assert.same({ 1, { 2 } }, { 1, { 2 } })
    assert.is_not.same({ 1 }, { 2 })
    assert.is_true(true)
    assert.is_false(false)
    assert.is_nil(nil)
    assert.is_not_nil(0)
    assert.truthy(1)
    assert.is.falsy(nil)
    assert.is_string "x"
    assert.is_not_number "x"
    assert.matches("^b", "bc")
    assert.near(1, 1.05, 0.1)
    assert.contains({ "a", "b" }, "b")
    assert.has_error(raiser, "out of paper")
    assert.has_no.errors(function() end)
  end)

  it("a value inside itself equals another such", function()
    local a, b = { 1 }, { 1 }
    a.self, b.self = a, b
    expect(a):to_equal(b)
  end)
end)

describe("what does not", function()
  it("equal numbers", function() expect(1):to_equal(2) end)
  it("equal texts of several lines", function() expect("one\ntwo\nthree"):to_equal("one\n2\nthree") end)
  it("equal tables", function()
    local works = { "Notes", "Letters" }
    local person = { name = "Ada", born = 1815, works = works, address = { city = "London", zip = "W1" } }
    expect(person):to_equal {
      name = "Ada", born = 1815, works = { "Notes", "Letters" }, address = { city = "Paris", zip = "W1" },
    }
  end)
  it("a table with more in it", function() expect({ 1, 2, 3 }):to_equal { 1, 2 } end)
  it("one inside itself", function()
    local a = { 1 }
    a.self = a
    expect(a):to_equal(1)
  end)
  it("nil", function() expect("x"):to_be_nil() end)
  it("a type", function() expect("x"):to_be_a "table" end)
  it("a pattern", function() expect("abc"):to_match "^b" end)
  it("nearness", function() expect(3.5):to_be_near(3, 0.25) end)
  it("a part", function() expect({ "a", "b" }):to_contain "c" end)
  it("a length", function() expect({}):to_have_length(2) end)
  it("no error", function() expect(function() end):to_raise() end)
  it("another error", function() expect(raiser):to_raise "ink" end)
  it("not to", function() expect(5):not_to_equal(5) end)
  it("assert.same", function() assert.same({ a = 1 }, { a = 2 }) end)
  it("assert.is_not_nil", function() assert.is_not_nil(nil) end)
  it("assert as Lua's own", function() assert(false, "said by Lua's") end)
  it("an unknown matcher", function() expect(5):to_be_prime() end)
  it("an unknown assertion", function() assert.is_prime(5) end)
end)

describe("errors", function()
  local function deep(n)
    if n == 0 then error "bottom" end
    deep(n - 1)
    return n
  end
  it("with a stack", function() deep(3) end)
  it("that are tables", function() error { code = 404, what = "lost" } end)
  it("that are nil", function() error(nil) end)
  it("of a child", function()
    require("orrery").async.run("child", function() error "of the child" end)
    require("orrery").async.sleep(10)
  end)
  it("of a child, after the body", function()
    local async = require("orrery").async
    async.run("child", function() async.sleep(10) error "late" end)
  end)
  it("of a timer's callback", function()
    local orrery = require "orrery"
    orrery.loop.set_timeout(5, function() error "in the callback" end)
    orrery.async.sleep(10)
  end)
  it("of a detached task", function()
    local async = require("orrery").async
    async.run({ name = "stray", detached = true }, function() error "on its own" end)
  end)
  it("of a detached task, allowed", { errors = true }, function()
    local async = require("orrery").async
    async.run({ name = "stray", detached = true }, function() error "on its own" end)
  end)
end)

pending "something for later"
it "is not written yet"
