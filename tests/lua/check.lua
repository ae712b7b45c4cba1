-- The fixture of the Lua tests, in addition to what `orrery test` gives them: notes, expected
-- errors, the test's own clock.
--
--   local check = require "check"
--   check.test("a task is done when its children are", function() ... end)

local loop = require("orrery").loop
local check = {}

-- The tests run on the virtual clock, where times are exact.
check.virtual = true

-- The notes of the running test, in order.
local notes = {}

function check.note(...)
  local words = table.pack(...)
  for i = 1, words.n do
    words[i] = tostring(words[i])
  end
  notes[#notes + 1] = table.concat(words, " ")
end

-- A callback that makes this note.
function check.noting(...)
  local words = table.pack(...)
  return function()
    check.note(table.unpack(words, 1, words.n))
  end
end

-- A callback that notes the word, the time and its arguments.
function check.noting_time(word)
  return function(...)
    check.note(word, check.elapsed(), ...)
  end
end

-- Compares all notes with a text: "; " stands between two.
function check.notes(expected)
  check.equal(table.concat(notes, "; "), expected)
end

local function show(value)
  return type(value) == "string" and string.format("%q", value) or tostring(value)
end

function check.equal(value, expected, what)
  if value ~= expected and not (value ~= value and expected ~= expected) then
    error(string.format("%s%s, expected %s", what and what .. ": " or "", show(value), show(expected)), 2)
  end
end

function check.truthy(value, what)
  if not value then
    error((what or "a condition") .. " does not hold", 2)
  end
end

-- The function must raise an error whose text matches; returns the error.
function check.raises(expected, fn, ...)
  local ok, err = pcall(fn, ...)
  if ok then
    error(string.format("no error, expected %s", show(expected)), 2)
  end
  if type(expected) == "string" and not tostring(err):find(expected, 1, true) then
    error(string.format("the error %s, expected %s", show(err), show(expected)), 2)
  end
  return err
end

-- Milliseconds of the runtime's clock since the test began.
local began

function check.elapsed()
  return math.floor(loop.now() - began + 0.5)
end

before_each(function()
  notes, began = {}, loop.now()
end)

check.test = it

return check
