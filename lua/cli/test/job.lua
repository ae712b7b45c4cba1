-- A job runs one test file in its own process, and collects what the process reports and how it
-- ends.
--
--   natives.spawn(words)   starts this program -> pid, descriptor of records, descriptor of output
--   natives.read(fd)       the bytes that are there; "" at the end; nil if there are none yet
--   natives.reap(pid)      how it ended, as text, and whether well; nil if it has not ended
--   natives.kill(pid, how) "stop" asks it to end, "kill" ends it
--   natives.close(fd), natives.clock()

local duration = ... -- writes milliseconds for people
local async = require("orrery").async
local wire = require "orrery.test.wire"
local Job = {}
Job.__index = Job

local LOOK_MS = 50 -- between two checks of the time
local PATIENCE_MS = 1000 -- how much later than its own limits a process is ended from outside

local function words_for(options, file)
  local limits = options.limits
  local words = { "test", "--child", file, "--seed", tostring(options.seed), "--reactor", options.reactor,
    "--test-limit", tostring(limits.test), "--file-limit", tostring(limits.file) }
  local function add(condition, ...)
    if condition then
      table.move({ ... }, 1, select("#", ...), #words + 1, words)
    end
  end
  add(options.filter, "--filter", options.filter)
  add(options.mount, "--mount", options.mount)
  add(options.list, "--list")
  add(options.shuffle, "--shuffle")
  add(options.shuffle_tasks, "--shuffle-tasks")
  add(options.real_time, "--real-time")
  return words
end

local function new(natives, options, file)
  local self = { natives = natives, options = options, file = file, results = {}, output = {}, planned = 0,
    left_out = 0 }
  return setmetatable(self, Job)
end

local receive = {}

function receive.plan(self, count)
  self.planned = math.tointeger(tonumber(count))
end

-- Tests that did not run because others were defined with `only`.
function receive.left_out(self, count)
  self.left_out = math.tointeger(tonumber(count))
end

function receive.test(self, name, place)
  self.results[#self.results + 1] = { name = name, place = place, status = "listed" }
end

function receive.begin(self, name, place, limit)
  self.running = { name = name, place = place, limit = tonumber(limit) }
  self.test_began = self.natives.clock()
end

receive["end"] = function(self, status, ms, text)
  local test = self.running
  test.status, test.ms, test.text = status, tonumber(ms), text
  self.results[#self.results + 1] = test
  self.running = nil
end

function receive.broken(self, text)
  self.broken = text
end

function receive.stopped(self, tree)
  self.tree = tree
end

function receive.done(self, ended)
  self.done = true
  self.ended = ended ~= "" and ended or nil
end

local function read_all(self, fd, take)
  while true do
    async.readable(fd)
    local bytes = self.natives.read(fd)
    if bytes == "" then
      return
    elseif bytes then
      take(bytes)
    end
  end
end

-- Ends a process that its own limits have not ended: it is in a C function, or refuses.
local function watch(self)
  local limits, clock = self.options.limits, self.natives.clock
  while true do
    async.sleep(LOOK_MS)
    local now = clock()
    local slack = limits.grace * 2 + PATIENCE_MS
    local limit = self.running and self.running.limit or 0
    if limits.file > 0 and now - self.began > limits.file + slack then
      self.killed = string.format("the time limit of a file, %s, has passed", duration(limits.file))
    -- A loop's time counts from its last wait.
    elseif limit > 0 and now - self.test_began > 2 * limit + slack then
      self.killed = string.format("the time limit of a test, %s, has passed", duration(limit))
    end
    if self.killed then
      return self.natives.kill(self.pid, "kill")
    end
  end
end

local function drain(self, fd)
  local bytes = self.natives.read(fd)
  while bytes and bytes ~= "" do
    self.output[#self.output + 1] = bytes
    bytes = self.natives.read(fd)
  end
end

local function reap(self)
  local how, well = self.natives.reap(self.pid)
  while how == nil do
    async.sleep(1)
    how, well = self.natives.reap(self.pid)
  end
  return how, well
end

-- Records the end of the process, and what it could not report itself.
local function judge(self, how, well)
  if self.stopping or (self.done and well) then
    return
  elseif self.done then
    self.broken = "the process of the file ended badly after its last test: " .. how
    return
  end
  local why = self.killed and self.killed .. ", and the process did not end by itself; it was killed"
    or "the process of the file ended in the middle of it: " .. how
  if self.running then
    self.running.status, self.running.ms, self.running.text = "failed", self.natives.clock() - self.test_began, why
    self.results[#self.results + 1] = self.running
    self.running = nil
  else
    self.broken = why
  end
end

---Runs the job to its end.
function Job:run()
  self.began = self.natives.clock()
  local pid, records, output = self.natives.spawn(words_for(self.options, self.file))
  if not pid then
    self.broken = "no process: " .. records
    return
  end
  self.pid = pid
  local decode = wire.decoder(function(kind, ...)
    receive[kind](self, ...)
  end)
  local guard = async.run(watch, self)
  local printed = async.run(read_all, self, output, function(bytes)
    self.output[#self.output + 1] = bytes
  end)
  read_all(self, records, decode)
  local how, well = reap(self)
  guard:close()
  printed:close() -- other processes may keep its output open
  async.pawait(printed)
  drain(self, output)
  self.natives.close(records)
  self.natives.close(output)
  self.pid = nil
  self.ms = self.natives.clock() - self.began
  judge(self, how, well)
end

---Ends the process from outside; asks first.
function Job:stop()
  self.stopping = true
  if self.pid then
    self.natives.kill(self.pid, "stop")
  end
end

return new
