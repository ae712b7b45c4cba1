-- A job scheduler runs jobs by the clock, like cron, with retries, time limits and at most two at
-- once. Ctrl-C stops it in good order: nothing new is started, and running jobs finish.
--
--     orrery examples/scheduler.lua [HOURS]              a minute of the jobs' day takes 10 ms
--     orrery --virtual examples/scheduler.lua [HOURS]    or no time at all
--
-- It stops because of its structure, not because of a flag that everybody checks. Each job has a
-- task, and all of them are children of one block. When the block is cancelled, by Ctrl-C or
-- because the day is over, every wait ends: for the clock, for a permit, for the next attempt. Only
-- the work itself is shielded, so the block waits for it.

local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop

io.stdout:setvbuf("line")

------------------------------------------------------------------------------------------ the clock

local MINUTE = 10 -- milliseconds
local begin = loop.now()

local function now()
  return (loop.now() - begin) / MINUTE
end

local function pause(minutes)
  async.sleep(minutes * MINUTE)
end

local function say(who, what, ...)
  local minute = math.floor(now() + 1e-6)
  print(("%02d:%02d  %-9s %s"):format(minute // 60, minute % 60, who, what:format(...)))
end

-- Parses a field such as "*", "*/15", "8-18" or "0,30" into the set of numbers from 0 to `last`.
local function parse_field(field, last)
  local set = {}
  for part in field:gmatch("[^,]+") do
    local range, step = part:match("^(.-)/(%d+)$")
    range, step = range or part, tonumber(step or 1)
    local first, final = range:match("^(%d+)%-(%d+)$")
    first, final = tonumber(first or range), tonumber(final or range)
    if range == "*" then
      first, final = 0, last
    end
    assert(first and final and final <= last and step > 0, ("'%s' is not a field of a schedule"):format(field))
    for number = first, final, step do
      set[number] = true
    end
  end
  return set
end

-- Parses "minute hour" into a function from a time, in minutes, to the next time that fits.
local function parse_schedule(text)
  local minutes, hours = text:match("^(%S+) (%S+)$")
  assert(minutes, ("'%s' is not a schedule: expected \"minute hour\""):format(text))
  minutes, hours = parse_field(minutes, 59), parse_field(hours, 23)
  return function(time)
    for minute = math.floor(time) + 1, math.floor(time) + 24 * 60 do
      if minutes[minute % 60] and hours[minute // 60 % 24] then
        return minute
      end
    end
    error(("'%s' never comes"):format(text))
  end
end

-------------------------------------------------------------------------------------- the scheduler

local permits = async.semaphore(2)
local running = {} -- the names of jobs, in order
local done, failed, missed = 0, 0, 0

local function remove(list, item)
  for i, other in ipairs(list) do
    if other == item then
      return table.remove(list, i)
    end
  end
end

-- Only its own time limit interrupts it.
local function work(job, attempt)
  running[#running + 1] = job.name
  local _ <close> = setmetatable({}, { __close = function() remove(running, job.name) end })
  async.shield(function() async.with_timeout(job.limit * MINUTE, job.work, attempt) end)
end

-- Tries again, and waits twice as long each time.
local function try(job)
  local delay = 5
  for attempt = 1, job.attempts do
    say(job.name, attempt == 1 and "is due" or "attempt %d", attempt)
    local ok, err = pcall(permits.with, permits, work, job, attempt)
    if ok then
      say(job.name, "is done")
      done = done + 1
      return
    elseif async.is_closing() then
      error(err, 0)
    end
    say(job.name, "failed: %s%s", err, attempt < job.attempts and ("; again in %d min"):format(delay) or "; gives up")
    if attempt < job.attempts then
      pause(delay)
      delay = 2 * delay
    end
  end
  failed = failed + 1
end

-- Runs one job at a time: a start that comes while the last one still runs is missed.
local function keep(job)
  local next_after = parse_schedule(job.at)
  local due = next_after(-1)
  while true do
    pause(math.max(0, due - now()))
    try(job)
    local started = due
    due = next_after(math.max(due, now() - 1e-6))
    local skipped = next_after(started)
    while skipped < due do
      missed = missed + 1
      skipped = next_after(skipped)
    end
  end
end

local function run_jobs(jobs)
  local _ <close> = setmetatable({}, {
    __close = function()
      say("scheduler", #running > 0 and "stops, when %s is done" or "stops%s", table.concat(running, " and "))
    end,
  })
  for _, job in ipairs(jobs) do
    async.run(job.name, keep, job)
  end
  async.sleep(1e12)
end

----------------------------------------------------------------------------------------- an example

local hours = tonumber(arg and arg[1] or 6)

local ok, err = pcall(async.move_on_after, hours * 60 * MINUTE, run_jobs, {
  { name = "mail", at = "*/45 *", attempts = 1, limit = 20, work = function() pause(5) end },
  {
    name = "report", at = "0 */2", attempts = 4, limit = 60,
    work = function(attempt)
      pause(3)
      if attempt < 3 then
        error("the database is busy", 0)
      end
    end,
  },
  { name = "backup", at = "30 1-23/4", attempts = 1, limit = 120, work = function() pause(50) end },
  -- The other side hangs.
  { name = "sync", at = "15 3", attempts = 3, limit = 10, work = function() pause(1e9) end },
})

say("scheduler", "%d done, %d failed, %d missed", done, failed, missed)
if not ok then
  error(err, 0)
end
