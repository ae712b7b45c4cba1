-- Events: which handlers are called, in which order, and what a handler may do.
local check = require "check"
local test, equal, raises = check.test, check.equal, check.raises
local async, events = vim.async, vim.events

local function recorder()
  local seen = {}
  return seen, function(word) return function() seen[#seen + 1] = word end end
end

test("handlers are called in the order of their registration, names and prefixes alike", function()
  local seen, note = recorder()
  events:on("window:open", note "1")
  events:on("window:*", note "2")
  events:on({ "window:open", "key" }, note "3")
  events:on("*", note "4")
  events:on({ "window:*", "window:open" }, note "5")
  equal(events:emit("window:open"), 5)
  equal(events:emit("window:close"), 3)
  equal(events:emit("key"), 2)
  equal(events:emit("nothing"), 1)
  equal(table.concat(seen), "12345" .. "245" .. "34" .. "4")
  events:clear()
  equal(events:emit("window:open"), 0)
end)

test("data are passed as they are, and nil is nil", function()
  local got = {}
  events:on("d", function(...) got = table.pack(...) end)
  local data = {}
  events:emit("d", data)
  equal(got[1], data)
  events:emit("d")
  equal(got[1], nil)
  events:clear()
end)

test("an emit calls the handlers that were registered when it began and still are", function()
  local seen, note = recorder()
  local second
  events:on("s", function()
    seen[#seen + 1] = "first"
    events:on("s", note "late")
    events:off("s", second)
  end)
  second = events:on("s", note "second")
  events:on("s", note "third")
  events:emit("s")
  equal(table.concat(seen, " "), "first third")
  events:clear()
end)

test("ids are never used again", function()
  local a = events:on("i", print)
  events:off("i", a)
  local b = events:on("i", print)
  check.truthy(b > a)
  events:clear()
  check.truthy(events:on("i", print) > b)
  events:clear()
end)

test("off takes one name of a handler, or all; and says whether there was one", function()
  local seen, note = recorder()
  local id = events:on({ "a", "b", "c:*" }, note "x")
  equal(events:off("a", id), true)
  equal(events:off("a", id), false)
  equal(events:off("nothing", id), false)
  equal(events:off("a", 12345), false)
  equal(events:emit("a"), 0)
  equal(events:emit("b"), 1)
  equal(events:off(id), true)
  equal(events:off(id), false)
  equal(events:emit("b") + events:emit("c:1"), 0)
  equal(#seen, 1)
end)

test("once is once, for all its names, and even if it fails or emits the same again", function()
  local seen, note = recorder()
  events:once({ "o", "p" }, note "x")
  events:once("o", function() seen[#seen + 1] = "y" events:emit("o") end)
  equal(events:emit("o"), 2)
  equal(events:emit("o") + events:emit("p"), 0)
  equal(table.concat(seen), "xy")
end)

test("a handler that fails stops no other, and is called the next time", { errors = true }, function()
  local seen, note = recorder()
  events:on("f", function() seen[#seen + 1] = "bad" async.await(async.run(error, "expected: a handler fails")) end)
  events:on("f", note "good")
  equal(events:emit("f"), 2)
  equal(events:emit("f"), 2)
  equal(table.concat(seen, " "), "bad good bad good")
  events:clear()
end)

test("handlers are tasks: emit returns when each has ended or waits", function()
  local seen = {}
  events:on("w", function()
    seen[#seen + 1] = "begun"
    async.sleep(5)
    seen[#seen + 1] = "slept"
  end)
  events:emit("w")
  events:emit("w")
  equal(table.concat(seen, " "), "begun begun")
  async.sleep(6)
  equal(table.concat(seen, " "), "begun begun slept slept")
  events:clear()
end)

test("emitting inside one another's handlers has an end, and one after another has none", function()
  local depth, count, message = 0, 0, nil
  events:on("r", function()
    depth = depth + 1
    local ok, err = pcall(events.emit, events, "r")
    message = message or not ok and err
  end)
  events:emit("r")
  equal(depth, 32)
  check.truthy(message:find("'r': handlers emit events inside one another, more than 32 deep", 1, true), message)
  check.truthy(message:find("events.lua:%d+: ") and not message:find("orrery/events", 1, true), message)
  events:on("l", function()
    async.sleep(1)
    count = count + 1
    if count < 100 then events:emit("l") end
  end)
  events:emit("l")
  async.sleep(200)
  equal(count, 100)
  events:clear()
end)

test("list names the registered handlers", function()
  local a = events:on({ "y", "x" }, print)
  local b = events:once("z:*", print)
  local words = {}
  for _, entry in ipairs(events:list()) do
    words[#words + 1] = (entry.id == a and "a" or entry.id == b and "b") .. entry.name .. tostring(entry.once) .. tostring(entry.disabled)
  end
  equal(table.concat(words, " "), "axfalsefalse ayfalsefalse bz:*truefalse")
  equal(#events:list("y"), 1)
  events:clear("y")
  equal(#events:list(), 2)
  events:clear()
  equal(#events:list(), 0)
end)

test("misuse is told", function()
  raises("events:on: expected the name of an event, got an empty string", function() events:on("", print) end)
  raises("events:on: expected the name of an event, got number", function() events:on(5, print) end)
  raises("events:on: the list of names is empty", function() events:on({}, print) end)
  raises("events:on: expected the name of an event, got boolean", function() events:on({ "a", false }, print) end)
  raises("a star is allowed only at the end", function() events:on("a*b", print) end)
  raises("a star is allowed only at the end", function() events:emit("a*") end)
  raises("events:on: expected a function, got nil", function() events:on("a") end)
  raises("events:on: call it with a colon", function() events.on("a", print) end)
  raises("events:emit: expected the name of an event, got nil", function() events:emit() end)
end)
