-- The process of one test file: loads it, runs its tests one after the other, and reports each
-- result. The module is a function: it gets the C functions and the options, and returns the
-- functions that C calls.
--
--   natives.send(bytes)    sends bytes to the process that has started this one
--   natives.clock()        real milliseconds
--   natives.limit(ms)      calls `limit` after this many real milliseconds; 0 for never
--   natives.unhandled()    reports of failures that nobody saw, since the last call; nil for none
--   natives.overruns()     such reports of tasks that were ended at their deadlines
--   natives.finish()       ends the process

local natives, options
local duration = ... -- writes milliseconds for people
local orrery = require "orrery"
local attempt = require "orrery.test.attempt"
local suite = require "orrery.test.suite"
local wire = require "orrery.test.wire"
local async, testing = orrery.async, orrery.testing

local file_ended -- ended by its time limit, or from outside

-- Records are sent when the next test begins, or when none follows: one write for each test.
local pending = {}

local function note(...)
  pending[#pending + 1] = wire.encode(...)
end

local function send(...)
  note(...)
  io.stdout:flush()
  natives.send(table.concat(pending))
  pending = {}
end

-- The seed differs for each test, and is the same in each run, alone or with other tests.
local function seed_of(name)
  local hash = options.seed
  for i = 1, #name do
    hash = (hash ~ name:byte(i)) * 0x100000001b3
  end
  return hash
end

local function seed_for(name)
  local seed = seed_of(name)
  math.randomseed(seed)
  if options.shuffle_tasks then
    testing.shuffle(seed == 0 and 1 or seed)
  end
end

local function text_of(failures)
  return table.concat(failures, "\n\n")
end

--------------------------------------------------------------------------------------------- blocks

-- A block with before_all or after_all is a task that lasts as long as its tests: tasks that
-- before_all starts live until after_all has run.
local function enter(block)
  local ready = async.event()
  block.leave = async.event()
  natives.limit(options.limits.test)
  block.attempt = attempt.start("before_all of " .. (block.name or "the file"), natives, function(self)
    for _, fn in ipairs(block.before_all) do
      block.broken = block.broken or not self:guard(fn)
    end
    ready:set()
    block.leave:wait()
    for _, fn in ipairs(block.after_all) do
      self:guard(fn)
    end
  end)
  block.attempt.task:on_complete(function() ready:set() end)
  ready:wait()
  natives.limit(0)
  attempt.current = nil
  block.broken = block.broken or block.attempt.task:status() == "completed"
  if block.broken then
    block.reason = text_of(block.attempt.failures)
    block.attempt.failures = {}
  end
end

local function leave(block)
  local self = block.attempt
  natives.limit(options.limits.test)
  attempt.current = self
  block.leave:set()
  self:finish()
  self:take_unhandled(false)
  self:take_leaks(false)
  natives.limit(0)
  attempt.current = nil
  if #self.failures > 0 and not block.broken then
    local name = "after_all of " .. (block.name or "the file")
    note("begin", name, "", 0)
    note("end", "failed", 0, text_of(self.failures))
  end
end

local entered = {} -- the blocks with such hooks that we are in, outermost first

local function blocks_of(test)
  local list = {}
  local block = test.block
  while block do
    table.insert(list, 1, block)
    block = block.parent
  end
  return list
end

local last_block

local function move_to(test)
  if test and test.block == last_block and #entered == 0 then
    return
  end
  last_block = test and test.block
  local wanted, inside = {}, {}
  for _, block in ipairs(test and blocks_of(test) or {}) do
    if #block.before_all + #block.after_all > 0 then
      wanted[#wanted + 1] = block
      inside[block] = true
    end
  end
  while #entered > 0 and not inside[entered[#entered]] do
    leave(table.remove(entered))
  end
  for i = #entered + 1, #wanted do
    entered[i] = wanted[i]
    enter(wanted[i])
  end
  for _, block in ipairs(entered) do
    if block.broken then
      return "before_all of " .. (block.name or "the file") .. " failed: " .. block.reason
    end
  end
end

---------------------------------------------------------------------------------------------- tests

-- Returns the hooks of all blocks around a test: before_each with outer blocks first, after_each
-- with inner blocks first.
local function hooks_of(test)
  local own = test.block
  if not own.all_before then
    own.all_before, own.all_after = {}, {}
    for _, block in ipairs(blocks_of(test)) do
      local before, after = block.before_each, block.after_each
      table.move(before, 1, #before, #own.all_before + 1, own.all_before)
      own.all_after = table.move(own.all_after, 1, #own.all_after, #after + 1, table.move(after, 1, #after, 1, {}))
    end
  end
  return own.all_before, own.all_after
end

local function run_afters(self, afters)
  self.has_cleaned = true
  for _, fn in ipairs(afters) do
    self:guard(fn)
  end
end

local function limit_of(test)
  return math.ceil(test.options.timeout or options.limits.test)
end

local function run_test(test)
  local before, after = hooks_of(test)
  local limit = limit_of(test)
  natives.limit(limit)
  seed_for(test.full_name)
  local self = attempt.start(test.full_name, natives, function(self)
    local ok = true
    for _, fn in ipairs(before) do
      ok = ok and self:guard(fn)
    end
    if ok then
      self:guard(test.fn)
    end
    if #after > 0 then
      async.shield(run_afters, self, after)
    end
  end, limit)
  self:finish()
  if #after > 0 and not self.has_cleaned then -- it was ended in the middle
    natives.limit(limit)
    local rest = attempt.start("after_each of " .. test.full_name, natives, function(rest)
      run_afters(rest, after)
    end, limit)
    rest:finish()
    rest:take_leaks(test.options.leaks)
    table.move(rest.failures, 1, #rest.failures, #self.failures + 1, self.failures)
    attempt.current = self
  end
  natives.limit(limit)
  self:take_leaks(test.options.leaks)
  self:take_unhandled(test.options.errors)
  natives.limit(0)
  attempt.current = nil
  return self.failures
end

-- The start of a test is reported, too, so that a process that ends in the middle has named what
-- ran.
local function run_and_tell(test)
  local broken = not test.skipped and move_to(test) -- hooks of a block of skipped tests do not run
  send("begin", test.full_name, test.place, limit_of(test))
  local began = natives.clock()
  if not test.fn then
    return note("end", "pending", 0, "")
  elseif test.skipped then
    return note("end", "skipped", 0, "")
  elseif broken then
    return note("end", "failed", 0, broken)
  end
  local failures = run_test(test)
  note("end", #failures == 0 and "passed" or "failed", natives.clock() - began, text_of(failures))
end

----------------------------------------------------------------------------------------------- file

local function load_file(definitions)
  for name, value in pairs(definitions.globals) do
    _G[name] = value
  end
  local directory = options.file:match "^(.*/)" or "./"
  package.path = directory .. "?.lua;" .. package.path -- tests share modules next to them
  natives.limit(options.limits.file)
  local self = attempt.start(options.file, natives, function(self)
    local chunk, message = loadfile(options.file)
    if not chunk then
      self:fail(message)
      return
    end
    self:guard(function() chunk(options.file) end)
  end)
  self:finish()
  self:take_unhandled(false)
  natives.limit(0)
  attempt.current = nil
  definitions.close()
  return self.failures
end

local function is_wanted(test)
  local filter, name = options.filter, test.full_name
  return not filter or name:find(filter, 1, true) or (pcall(name.find, name, filter) and name:find(filter))
end

-- Returns the tests that it.only and describe.only leave, and how many they leave out. In
-- continuous integration that would hide failures.
local function only_picked(tests)
  local picked = {}
  for _, test in ipairs(tests) do
    if test.picked then
      picked[#picked + 1] = test
    end
  end
  return picked, #tests - #picked
end

local function refuse_only(tests)
  local ci = os.getenv "CI"
  for _, test in ipairs(ci and ci ~= "" and ci ~= "false" and tests or {}) do
    if test.picked then
      return string.format("%s: it.only or describe.only was left in the file, and the variable CI is set; "
        .. "remove it, so that all tests run", test.place)
    end
  end
end

local function run()
  testing.mark()
  local definitions = suite.new()
  seed_for(options.file)
  local failures = load_file(definitions)
  if #failures > 0 then
    note("broken", text_of(failures))
  end
  local tests = #failures == 0
      and suite.order(definitions.root, is_wanted, options.shuffle and seed_of(options.file))
    or {}
  if definitions.is_picked() and not options.list then
    local trouble = refuse_only(tests)
    local picked, left_out = only_picked(tests)
    tests = picked
    note("left_out", left_out)
    if trouble then
      note("broken", trouble)
    end
  end
  note("plan", #tests)
  for _, test in ipairs(tests) do
    if options.list then
      note("test", test.full_name, test.place)
    elseif not file_ended then
      run_and_tell(test)
    end
  end
  move_to(nil)
  send("done", file_ended or "")
  natives.finish()
end

---------------------------------------------------------------------------------------- called by C

local handlers = { run = run, deadlock = attempt.deadlock }

-- After a time limit there is a little more time to clean up; then the rest is ended.
function handlers.limit(which)
  if which == "file" then
    file_ended = string.format("the time limit of a file, %s, has passed", duration(options.limits.file))
  end
  local current = attempt.current
  attempt.limit(which, which == "file" and options.limits.file or current and current.limit or options.limits.test)
  natives.limit(options.limits.grace)
end

---Ends the file from outside, after reporting what was running.
function handlers.stop()
  local current = attempt.current
  send("stopped", current and current.owner and current:tree() or "")
end

return function(functions, given)
  natives, options = functions, given
  return handlers
end
