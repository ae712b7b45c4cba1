-- An attempt is one piece of a test file's code that runs as a task: loading the file, a test with
-- its hooks, or the hooks of a block. It owns everything that it creates (`owner`), so that leaks
-- can be reported and removed.
--
-- Only one attempt runs at a time, `attempt.current`. A deadlock or a time limit ends the current
-- attempt: it is cancelled, and if it does not end, it is ended by force. Either way the cause is
-- among its failures.

local orrery = require "orrery"
local duration = ... -- writes milliseconds for people
local show = require "orrery.test.show"
local expect = require "orrery.test.expect"
local async, testing = orrery.async, orrery.testing

local attempt = {}
local TRACE_LINES = 12
local NEVER = 1e12
local TIMEOUT = "Script execution timeout" -- raised when a task was ended at its deadline
local UNHANDLED_SHOWN = 3 -- reports shown in full
-- How often, and for how many milliseconds, to wait for a cancelled attempt.
local STEPS, STEP = 100, 10

-------------------------------------------------------------------------------------------- as text

-- Returns whether a line of a stack is the test's own.
local function is_own(line)
  return not (line:find "^%[C%]" or line:find "^orrery/" or line:find "^%(?%.%.%.")
end

-- Returns the lines of the stacks that are the test's own. If an error came through several tasks,
-- their names are among them.
local function trim_trace(trace)
  local lines = {}
  local stacks = trace:match "\n(stack traceback:.*)" or ""
  local named = stacks:find "' awaited it" or stacks:find "' failed because of it"
  for line in stacks:gmatch "\n([^\n]+)" do
    local level = line:match "^\t(.*)"
    local shown = level and is_own(level) and "  " .. level
      or named and not level and line ~= "stack traceback:" and line ~= "  inside:"
        and line:gsub(", created at .*", "") -- known only as long as there is a handle
    if shown and #lines < TRACE_LINES then
      lines[#lines + 1] = shown
    end
  end
  return lines
end

-- Returns an error value as text, and where it was raised.
local function describe_error(value, trace)
  local text
  if type(value) == "string" or getmetatable(value) == expect.Failure then
    text = tostring(value)
  else
    text = "error: " .. show.value(value)
  end
  local lines = trim_trace(trace or "")
  local place = lines[1] and lines[1]:match "^  (.-:%d+):"
  if #lines > 1 or (place and not text:find(place, 1, true)) then
    text = text .. "\nat\n" .. table.concat(lines, "\n")
  end
  return text
end

-- Returns the report of a failure without lines that are not the test's own.
local function describe_report(report)
  local lines = {}
  for line in (report .. "\n"):gmatch "(.-)\n" do
    if line ~= "stack traceback:" and (line:sub(1, 1) ~= "\t" or is_own(line:sub(2))) then
      lines[#lines + 1] = (line:gsub("^\t", "  "))
    end
  end
  return table.concat(lines, "\n")
end

-- Returns, from the report of a deadline, who ran for how long, where, and the stack.
local function describe_overrun(report, what)
  local who, where = report:match "^[^:]*: ([^\n]*)\n([^\n]*)"
  local text = (what or "a deadline") .. " has passed: " .. (who or report) .. "\n" .. (where or "")
  local lines = trim_trace(report)
  return #lines > 0 and text .. "\nat\n" .. table.concat(lines, "\n") or text
end

local function describe_thing(thing)
  local words = { thing.kind }
  if thing.name then
    words[#words + 1] = "'" .. thing.name .. "'"
  end
  local text = table.concat(words, " ")
  if thing.state then
    text = text .. (thing.kind == "task" and ": " or " that ") .. thing.state
  end
  text = text .. (thing.waits_for and " for " .. thing.waits_for or "")
  text = text .. (thing.at and thing.at ~= "" and ", at " .. thing.at or "")
  return text .. (thing.created and thing.created ~= "" and ", created at " .. thing.created or "")
end

local function describe_things(things)
  local lines = {}
  for i, thing in ipairs(things) do
    lines[i] = ("  "):rep((thing.depth or 0) + 1) .. describe_thing(thing)
  end
  return table.concat(lines, "\n")
end

-------------------------------------------------------------------------------------------- running

local Attempt = {}
Attempt.__index = Attempt

function Attempt:fail(text)
  self.failures[#self.failures + 1] = text
end

---Returns the attempt's tasks that are not done, as a tree.
function Attempt:tree()
  return describe_things(testing.tasks(self.owner))
end

---Calls a function inside the attempt's task. Returns false and notes the failure if it fails.
function Attempt:guard(fn)
  local told = false
  local ok, err = xpcall(fn, function(value)
    told = true
    if not (self.cut_short and value == "closed") then
      local report = async.traceback(value, 2)
      local overrun = value == TIMEOUT and report:find("^" .. TIMEOUT .. ": ")
      self:fail(overrun and describe_overrun(report) or describe_error(value, report))
      self.timed_out = value == TIMEOUT and #self.failures
    end
  end)
  if not ok and not told then -- no handler is called when memory runs out
    self:fail(describe_error(err))
  end
  return ok
end

-- Ends the attempt from outside.
function Attempt:cut(text)
  if self.cut_short then
    testing.drop(self.owner)
  else
    self.cut_short = true
    self:fail(text)
    testing.close(self.owner)
  end
end

---Starts an attempt: `body(self)` runs as a task. It may run for `limit` milliseconds without
---waiting; 0 for no limit.
function attempt.start(name, natives, body, limit)
  local self = setmetatable({ name = name, natives = natives, failures = {}, limit = limit }, Attempt)
  attempt.current = self
  self.task = async.run({ name = name, detached = true, deadline = limit == 0 and NEVER or limit }, function()
    self.owner = testing.mark()
    return body(self)
  end)
  return self
end

---Waits for its end, and for failures that nobody saw.
function Attempt:finish()
  local ok, err = async.pawait(self.task)
  async.checkpoint()
  async.checkpoint()
  if self.timed_out and self.cut_short then -- both happened at once, and the limit says less
    self.failures = { self.failures[self.timed_out] }
  end
  if not ok and testing.timed_out(self.task) then
    -- All other failures follow from this one.
    self.failures = { describe_overrun(testing.report(self.task), "the time limit of a test") }
    self.natives.unhandled()
  elseif not ok and not (self.cut_short and err == "closed") then
    local report = testing.report(self.task) or ""
    self:fail(describe_error(err, report))
  end
  return ok
end

---Fails the attempt for errors of detached tasks, timers and handlers, and for those that were
---ended at their deadlines.
function Attempt:take_unhandled(allowed)
  local unhandled, overruns = self.natives.unhandled(), self.natives.overruns()
  if allowed then
    return
  end
  for _, report in ipairs(overruns or {}) do
    self:fail(describe_overrun(report))
  end
  unhandled = unhandled or {}
  for i = 1, math.min(#unhandled, UNHANDLED_SHOWN) do
    self:fail("an error that nobody saw: " .. describe_report(unhandled[i]))
  end
  if #unhandled > UNHANDLED_SHOWN then
    self:fail(string.format("and %d more errors that nobody saw", #unhandled - UNHANDLED_SHOWN))
  end
end

---Fails the attempt for what it has left behind, and removes that.
function Attempt:take_leaks(allowed)
  local left = testing.leaks(self.owner)
  if #left == 0 then
    testing.forget(self.owner)
    return
  end
  if not allowed and not self.cut_short then
    self:fail("the test left these behind:\n" .. describe_things(left))
  end
  testing.close(self.owner)
  async.checkpoint()
  for _ = 1, STEPS do
    if #testing.tasks(self.owner) == 0 then
      testing.forget(self.owner)
      return
    end
    async.sleep(STEP)
  end
  testing.drop(self.owner)
end

--------------------------------------------------------------------------------------- from outside

function attempt.deadlock()
  local current = attempt.current
  if current then
    local text = "deadlock: no task is ready, no timer is set, and nothing will come from outside, but these wait:\n"
    current:cut(text .. current:tree())
  end
end

---`which` names the limit; `ms` is its length in milliseconds.
function attempt.limit(which, ms)
  local current = attempt.current
  if current then
    local text = string.format("the time limit of a %s, %s, has passed; these are not done:\n", which, duration(ms))
    current:cut(text .. current:tree())
  end
end

return attempt
