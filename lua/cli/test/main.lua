-- `orrery test`: finds the files, runs each in its own process, several at a time, and reports them
-- in order. The module is a function: it gets the C functions and the words of the command line,
-- and returns the exit status.

local natives
local duration = ... -- writes milliseconds for people
local orrery = require "orrery"
local async = orrery.async
local find_files = require "orrery.test.files"
local new_job = require "orrery.test.job"
local options_of = require "orrery.test.options"
local suite = require "orrery.test.suite"
local text_of = require "orrery.test.text"

local STOP_MS = 2000 -- how long processes may take to end when they are asked to

local function write(text)
  io.stdout:write(text)
end

local function choose_seed(options)
  if not options.seed then
    options.seed = natives.random() & 0x7fffffff
  end
end

-- Reports in the order of the files, whichever ends first.
local function reporter(jobs, format, totals)
  local at = 1
  return function()
    while jobs[at] and jobs[at].finished do
      local job = jobs[at]
      for _, result in ipairs(job.results) do
        totals[result.status] = (totals[result.status] or 0) + 1
      end
      totals.skipped = totals.skipped + job.left_out
      if job.broken or job.ended then
        totals.failed = totals.failed + 1
      end
      format.file(job)
      io.stdout:flush()
      at = at + 1
    end
  end
end

local function run_jobs(jobs, options, report)
  local next_job = 1
  local function work()
    while jobs[next_job] and not jobs.stopping do
      local job = jobs[next_job]
      next_job = next_job + 1
      job:run()
      job.finished = not job.stopping
      report()
    end
  end
  async.scope(function()
    for _ = 1, math.min(options.jobs or natives.processors(), #jobs) do
      async.run(work)
    end
  end)
end

-- Reports what was running at the end, in the order of the files.
local function tell_running(jobs, why)
  io.stderr:write("orrery test: ", why, "\n")
  for _, job in ipairs(jobs) do
    if job.began and not job.finished then
      local test = job.running
      io.stderr:write("  running: ", job.file, test and ": " .. test.name or "", "\n")
      for _, text in ipairs { job.tree or "", table.concat(job.output) } do
        io.stderr:write(text_of.indent(text_of.printable(text):gsub("\n$", ""), 2), text ~= "" and "\n" or "")
      end
    end
  end
end

-- Ends all processes; those that refuse, by force.
local function stop_all(jobs, runner)
  jobs.stopping = true
  for _, job in ipairs(jobs) do
    if job.began and not job.finished then
      job:stop()
    end
  end
  async.move_on_after(STOP_MS, function()
    for _, job in ipairs(jobs) do
      while job.pid do
        async.sleep(5)
      end
    end
  end)
  for _, job in ipairs(jobs) do
    if job.pid then
      natives.kill(job.pid, "kill")
    end
  end
  runner:close()
end

local function list(jobs)
  for _, job in ipairs(jobs) do
    for _, result in ipairs(job.results) do
      write(string.format("%s: %s\n", job.file, result.name))
    end
    if job.broken then
      io.stderr:write(string.format("orrery test: %s: %s\n", job.file, job.broken))
    end
  end
end

local function make_jobs(options)
  local files = find_files(natives, options.paths)
  if options.shuffle then
    suite.shuffle(files, suite.generator(options.seed))
  end
  local jobs = {}
  for i, file in ipairs(files) do
    jobs[i] = new_job(natives, options, file)
  end
  return jobs
end

local function wait_for_signal()
  local fd = natives.signals()
  async.readable(fd)
  return natives.read_signal(fd)
end

-- Runs until all have ended, the time is up, or a signal asks for the end: then returns the reason
-- and the exit status.
local function run_to_end(jobs, options, report)
  local runner = async.run({ name = "files", detached = true }, run_jobs, jobs, options, report)
  local ways = {
    runner,
    async.run(wait_for_signal),
  }
  if options.limits.run > 0 then
    ways[3] = async.run(async.sleep, options.limits.run)
  end
  local way, signal = async.await_any(ways)
  local why, status
  if way == 2 then
    why, status = "interrupted by " .. signal, 130
  elseif way == 3 then
    why, status = string.format("the time limit of the run, %s, has passed", duration(options.limits.run)), 1
  end
  if why then
    stop_all(jobs, runner)
    tell_running(jobs, why)
    async.pawait(runner)
  end
  for i = 2, #ways do
    ways[i]:close()
  end
  return status
end

local function run(options)
  choose_seed(options)
  local jobs = make_jobs(options)
  local totals = { passed = 0, failed = 0, pending = 0, skipped = 0 }
  local format = options.list and { file = function() end }
    or require("orrery.test." .. options.format)(write, options, natives)
  local began = natives.clock()
  local stopped = run_to_end(jobs, options, reporter(jobs, format, totals))
  if options.list then
    list(jobs)
    return totals.failed > 0 and 1 or 0
  end
  format.finish(totals, natives.clock() - began)
  if stopped then
    return stopped
  elseif totals.passed + totals.failed + totals.pending + totals.skipped == 0 then
    io.stderr:write("orrery test: there are no tests", options.filter and " that match --filter" or "", "\n")
    return 2
  end
  return totals.failed == 0 and 0 or 1
end

return function(functions, words)
  natives = functions
  local ok, options = pcall(options_of.parse, words)
  if ok and options.help then
    write(options_of.usage)
    return 0
  end
  local status
  if ok then
    ok, status = pcall(run, options)
  end
  if ok then
    return status
  end
  local err = status or options
  if type(err) == "table" and err.usage then
    io.stderr:write("orrery test: ", err.usage, "\n")
    return 2
  end
  error(err, 0)
end
