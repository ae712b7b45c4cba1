-- What the Lua tests share.  A test is a sentence and a function, run as a task on the virtual clock.
--
--   local check = require "check"
--   check.test("a task is done when its children are", function() ... end)
--   check.done()

local async = require("orrery").async
local check = {}

local passed, failed = 0, 0
local pattern = arg and arg[1]

-- Whether the program runs on the virtual clock, where times are exact.
check.virtual = false
for i = -1, -16, -1 do
  check.virtual = check.virtual or arg ~= nil and arg[i] == "--virtual"
end

-- What has been noted in the running test, in order.
local notes = {}

function check.note(...)
  local words = table.pack(...)
  for i = 1, words.n do
    words[i] = tostring(words[i])
  end
  notes[#notes + 1] = table.concat(words, " ")
end

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

-- The function raises an error whose text matches; answers the error.
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

-- The time of the runtime's clock, in milliseconds, since the test began.
local began

function check.elapsed()
  return math.floor(require("orrery").loop.now() - began + 0.5)
end

function check.test(name, fn)
  if pattern and not name:find(pattern, 1, true) then
    return
  end
  notes, began = {}, require("orrery").loop.now()
  local task = async.run({ name = name, detached = true }, function()
    return xpcall(fn, debug.traceback)
  end)
  local done, ok, err = async.pawait(task)
  if done and ok then
    passed = passed + 1
  else
    failed = failed + 1
    io.stderr:write("FAILED  ", name, "\n  ", tostring(done and err or ok):gsub("\n", "\n  "), "\n")
  end
end

function check.done()
  print(string.format("%d passed, %d failed", passed, failed))
  os.exit(failed == 0 and passed > 0, true)
end

return check
