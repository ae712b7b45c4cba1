-- The fixture that runs the examples of a document, word for word.  Each example is a script, a
-- task without a parent.  The API has the name that the document uses (`vim`, `niri`: the program
-- mounts it so), `print` makes a note, and the test supplies the names that the example leaves
-- undefined.
--
--   local run = example.start([[ ...the example's own lines... ]], { worker_function = ... })
--   run.script      the task of the script
--   run.tasks       every task that the example has made, in that order
--   run.made        what else it has made: futures, events, queues, semaphores, timers
--   run.kept        what `keep(...)` was called with, in lines that the test adds as `after`

local check = require "check"
local example = {}

local orrery = require "orrery"
example.virtual = orrery.testing.is_virtual()

local mount
for _, name in ipairs { "vim", "niri" } do
  mount = _G[name] == orrery and name or mount
end

local api = _G[assert(mount, "run with --mount vim or --mount niri, the names that the documents use")]

-- Exact on the virtual clock; never early on the real one.
function example.time_is(ms, what)
  local now = check.elapsed()
  if example.virtual then
    check.equal(now, ms, what or "the time")
  else
    check.truthy(now >= ms - 1, string.format("%s: %d ms is not early for %d ms: this", what or "the time", now, ms))
  end
end

-- A proxy for a table; some of its functions note what they return.
local function recording(from, functions)
  local front = {}
  for name, list in pairs(functions) do
    front[name] = function(...)
      local made = from[name](...)
      list[#list + 1] = made
      return made
    end
  end
  return setmetatable(front, { __index = from })
end

-- A task takes its position in the list before it starts, so that its children come after it.
local function recording_run(from, tasks)
  local run = from.run
  from.run = function(...)
    local place = #tasks + 1
    tasks[place] = false
    local task = run(...)
    tasks[place] = task
    return task
  end
  return from
end

local function world(run, supplied)
  local made = run.made
  local async = recording(api.async, { _future = made, _event = made, _queue = made, semaphore = made })
  local loop = recording(api.loop, { new_timer = made })
  local env = {
    [mount] = setmetatable({ async = recording_run(async, run.tasks), loop = loop, uv = loop }, { __index = api }),
    print = check.note,
    keep = function(...)
      run.kept = table.pack(...)
    end,
  }
  for name, value in pairs(supplied or {}) do
    env[name] = value
  end
  return setmetatable(env, { __index = _G })
end

function example.start(source, supplied, after)
  local run = { tasks = {}, made = {} }
  local chunk = assert(load(source .. "\n" .. (after or ""), "=example", "t", world(run, supplied)))
  run.script = api.async.run({ name = "example", detached = true }, chunk)
  return run
end

-- Starts the example and waits until everything that it has started is done.  It must succeed.
function example.run(source, supplied, after)
  local run = example.start(source, supplied, after)
  run.script:wait()
  return run
end

-- Starts an example that must fail with an error that contains these words; returns that, too.
function example.fails(words, source, supplied, after)
  local run = example.start(source, supplied, after)
  return run, check.raises(words, run.script.wait, run.script)
end

-- How the tasks have ended, in the order in which they were made: "done", "closed", or "failed".
function example.outcomes(run)
  local words = {}
  for i, task in ipairs(run.tasks) do
    if task:status() == "completed" then
      local ok, err = task:pwait()
      words[i] = ok and "done" or err == "closed" and "closed" or "failed"
    else
      words[i] = task:status()
    end
  end
  return table.concat(words, " ")
end

-- A function that sleeps for `ms`.  Counts how many calls are under way, and the most at once.
function example.busy(ms)
  local self = { now = 0, most = 0, began = {}, ended = 0 }
  self.fn = function(item)
    self.now = self.now + 1
    self.most = math.max(self.most, self.now)
    self.began[#self.began + 1] = item
    orrery.async.sleep(ms)
    self.now = self.now - 1
    self.ended = self.ended + 1
  end
  return self
end

-- The list is 1, 2, 3 ... count.
function example.in_order(list, count)
  check.equal(#list, count)
  for i = 1, count do
    check.equal(list[i], i, "the order")
  end
end

return example
