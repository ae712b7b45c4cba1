-- `expect(x):to_equal(y)` and `assert.equal(y, x)`: two styles over one table of matchers.
--
-- A matcher is two functions. `holds` gets the value and what it is compared with, and returns
-- whether it holds, and details. `says` is called only if it does not hold: it gets the details,
-- the value and the rest, and returns what was expected ("to equal 5") and more to report, or nil.
-- A failed expectation raises a table whose text has the position of the test's line.

local show = require "orrery.test.show"
local value_text = show.value

local Failure = {}
Failure.__index = Failure

function Failure:__tostring()
  return (self.place ~= "" and self.place .. ": " or "") .. self.message
end

-- Returns the position of the innermost function that is not ours.
local function place()
  for level = 2, 50 do
    local info = debug.getinfo(level, "Sl")
    if not info then
      break
    elseif info.currentline > 0 and info.source:sub(1, 8) ~= "=orrery/" then
      return info.short_src .. ":" .. info.currentline
    end
  end
  return ""
end

local function fail(message)
  error(setmetatable({ message = message, place = place() }, Failure), 0)
end

------------------------------------------------------------------------------------------- matchers

local holds, says = {}, {}

function holds.equal(value, expected)
  return show.same(expected, value)
end

function says.equal(path, value, expected)
  local more = show.diff(expected, value)
  return "to equal " .. value_text(expected), path and "first at " .. path .. "\n" .. more or more
end

function holds.be(value, expected)
  return rawequal(value, expected) or value == expected
end

function says.be(_, value, expected)
  return "to be " .. value_text(expected), show.diff(expected, value)
end

function holds.be_truthy(value)
  return value
end

function says.be_truthy()
  return "to be truthy"
end

function holds.be_falsy(value)
  return not value
end

function says.be_falsy()
  return "to be false or nil"
end

function holds.be_nil(value)
  return value == nil
end

function says.be_nil()
  return "to be nil"
end

function holds.be_true(value)
  return value == true
end

function says.be_true()
  return "to be true"
end

function holds.be_false(value)
  return value == false
end

function says.be_false()
  return "to be false"
end

function holds.be_a(value, kind)
  return type(value) == kind or math.type(value) == kind
end

function says.be_a(_, value, kind)
  return "to be a " .. tostring(kind) .. ", not a " .. type(value)
end

function holds.match(value, pattern)
  return type(value) == "string" and value:find(pattern) ~= nil
end

function says.match(_, _, pattern)
  return "to match " .. value_text(pattern)
end

local NEAR = 1e-9

function holds.be_near(value, expected, tolerance)
  return type(value) == "number" and math.abs(value - expected) <= (tolerance or NEAR)
end

function says.be_near(_, _, expected, tolerance)
  return string.format("to be within %s of %s", value_text(tolerance or NEAR), value_text(expected))
end

function holds.be_greater_than(value, bound)
  return value > bound
end

function says.be_greater_than(_, _, bound)
  return "to be greater than " .. value_text(bound)
end

function holds.be_less_than(value, bound)
  return value < bound
end

function says.be_less_than(_, _, bound)
  return "to be less than " .. value_text(bound)
end

function holds.have_length(value, length)
  return #value == length
end

function says.have_length(_, value, length)
  return string.format("to have a length of %s, not %d", value_text(length), #value)
end

-- A text in a text, an item in a list, or a table that is part of another.
function holds.contain(value, part)
  if type(value) == "string" then
    return value:find(part, 1, true) ~= nil
  elseif type(value) ~= "table" then
    return false
  end
  for _, item in pairs(value) do
    if show.same(item, part) then
      return true
    end
  end
  local within = type(part) == "table" and next(part) ~= nil
  for key, item in pairs(within and part or {}) do
    within = within and show.same(value[key], item)
  end
  return within
end

function says.contain(_, _, part)
  return "to contain " .. value_text(part)
end

-- The error contains a text, matches a pattern, or is the value itself.
function holds.raise(fn, expected)
  local ok, err = pcall(fn)
  local more = ok and "it raised nothing" or "it raised " .. value_text(err)
  if ok or expected == nil then
    return not ok, more
  end
  local text = type(expected) == "string" and tostring(err)
  local found = text and (text:find(expected, 1, true) or pcall(text.find, text, expected) and text:find(expected))
  return found ~= nil and found ~= false or show.same(expected, err), more
end

function says.raise(more, _, expected)
  return expected == nil and "to raise an error" or "to raise " .. value_text(expected), more
end

local function check(matcher, negative, value, ...)
  local held, found = holds[matcher](value, ...)
  if (held and true or false) ~= negative then
    return
  end
  local words, more = says[matcher](found, value, ...)
  local subject = type(value) == "function" and "the function" or value_text(value)
  if subject:find "\n" or #subject > 200 then
    subject = "the " .. type(value)
  end
  if words:find "\n" or #words > 200 then
    words = words:match "^[%a ]+" .. "what is below"
  end
  local message = string.format("expected %s %s%s", subject, negative and "not " or "", words)
  fail(more and not negative and message .. "\n" .. more or message)
end

--------------------------------------------------------------------------------------------- expect

local Expectation = {}

function Expectation.__index(self, name)
  name = tostring(name)
  local negative = name:find "^not_to_" ~= nil
  local matcher = name:match(negative and "^not_to_(.*)" or "^to_(.*)")
  if not holds[matcher] then
    local names = {}
    for known in pairs(holds) do
      names[#names + 1] = "to_" .. known
    end
    table.sort(names)
    fail(string.format("expect: unknown expectation '%s'; expected one of %s, or the same with not_to_", name,
      table.concat(names, ", ")))
  end
  return function(called_on, ...)
    if called_on ~= self then
      fail(string.format("expect: call it with a colon: expect(x):%s(...)", name))
    end
    check(matcher, negative, rawget(self, "value"), ...)
    return self
  end
end

local function expect(...)
  if select("#", ...) == 0 then
    fail "expect: expected a value, got none"
  end
  return setmetatable({ value = (...) }, Expectation)
end

--------------------------------------------------------------------------------------------- assert

-- The names in busted and luassert: the matcher, and whether the expected value comes first.
local aliases = {
  equal = { "be", true }, equals = { "be", true }, same = { "equal", true }, truthy = { "be_truthy" },
  falsy = { "be_falsy" }, ["nil"] = { "be_nil" }, ["true"] = { "be_true" }, ["false"] = { "be_false" },
  matches = { "match", true }, match = { "match", true }, near = { "be_near", true }, contains = { "contain" },
  type = { "be_a", true }, raises = { "raise" }, error = { "raise" }, errors = { "raise" }, length = { "have_length" },
}
local kinds = { "string", "number", "table", "function", "boolean", "thread", "userdata", "integer", "float" }
for _, kind in ipairs(kinds) do
  aliases[kind] = { "be_a", kind = kind }
end
local fillers = { is = true, are = true, has = true, have = true, was = true, a = true, an = true, to = true }

local Words = {}

local function words(list)
  return setmetatable({ list = list }, Words)
end

-- `is_not_nil`, `are.equal`, `has_no.errors`: filler words, perhaps "not" or "no", and a name.
local function resolve(list)
  local negative, at = false, 1
  while list[at] and (fillers[list[at]] or list[at] == "not" or list[at] == "no") do
    negative = negative ~= (list[at] == "not" or list[at] == "no")
    at = at + 1
  end
  return aliases[table.concat(list, "_", at)], negative, at > #list
end

function Words.__index(self, name)
  local list = table.move(self.list, 1, #self.list, 1, {})
  for word in tostring(name):gmatch "[^_]+" do
    list[#list + 1] = word
  end
  local alias, _, incomplete = resolve(list)
  if not alias and not incomplete then
    fail(string.format("assert: unknown assertion '%s'", table.concat(list, "_")))
  end
  return words(list)
end

function Words.__call(self, ...)
  local alias, negative = resolve(rawget(self, "list"))
  if not alias then
    fail("assert: expected the name of an assertion after " .. table.concat(rawget(self, "list"), "_"))
  elseif alias.kind then
    return check(alias[1], negative, (...), alias.kind)
  elseif alias[2] then
    local expected, value = ...
    return check(alias[1], negative, value, expected, select(3, ...))
  end
  return check(alias[1], negative, ...)
end

-- A call is still Lua's own `assert`.
local root = words {}
local assertions = setmetatable({}, {
  __call = function(_, ...)
    if ... then
      return ...
    elseif select("#", ...) == 0 then
      error("bad argument #1 to 'assert' (value expected)", 2)
    end
    error(select("#", ...) > 1 and select(2, ...) or "assertion failed!", 2)
  end,
  __index = function(_, name)
    return root[name]
  end,
})

return { expect = expect, assert = assertions, Failure = Failure, place = place }
