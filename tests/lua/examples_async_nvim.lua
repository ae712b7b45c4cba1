-- The examples of the document on structured concurrency, as in examples.lua and its siblings, with
-- `orrery.async_nvim` in the place of `vim.async`.  The texts are those of the siblings.

local check = require "check"
local example = require "example"
local orrery = require "orrery"
local async = require "orrery.async_nvim"
local test, equal, note = check.test, check.equal, check.note
local sleep = async.sleep

-- Reads the examples: name -> text.
local folder = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local texts, count = {}, 0
for _, name in ipairs { "examples", "examples_errors", "examples_resources", "examples_patterns" } do
  local file <close> = assert(io.open(folder .. name .. ".lua"))
  for key, text in file:read("a"):gmatch "\nlocal ([%l_]+) = %[%[\n(.-)%]%]\n" do
    texts[key], count = text, count + 1
  end
end

local function noting(word)
  return function(...) note(word, ...) end
end

-- How the tasks have ended, in the order in which they were made.
local function outcomes(tasks)
  local words = {}
  for i, task in ipairs(tasks) do
    local ok, err = task:pwait()
    words[i] = ok and "done" or err == "closed" and "closed" or err == "timeout" and "timeout" or "failed"
  end
  return table.concat(words, " ")
end

-- Runs an example until all of its tasks are done.  `case` has the names that it uses (`given`),
-- and what is expected: notes, outcomes, the time, the error of its first task.
local function run(name, case)
  local tasks, timers = {}, {}
  local mine = setmetatable({
    run = function(...)
      local place = #tasks + 1
      tasks[place] = false -- so that its children come after it
      tasks[place] = async.run(...)
      return tasks[place]
    end,
  }, { __index = async })
  local uv = {
    new_timer = function()
      timers[#timers + 1] = orrery.loop.new_timer()
      return timers[#timers]
    end,
  }
  local env = { vim = { async = mine, schedule = orrery.schedule, uv = uv }, print = note }
  for key, value in pairs(case.given or {}) do
    env[key] = value
  end
  local text = case.change and texts[name]:gsub(case.change[1], case.change[2]) or texts[name]
  local chunk = assert(load(text, "=example", "t", setmetatable(env, { __index = _G })))
  local ok, err = pcall(chunk)
  equal(ok and "" or err, case.raises or "", "the error of the script")
  if case.close_after then
    orrery.async.sleep(case.close_after)
    tasks[1]:close()
  end
  equal(outcomes(tasks), case.outcomes)
  example.time_is(case.time or 0)
  check.notes(case.notes or "")
  if case.fails then
    equal(select(2, tasks[1]:pwait()), case.fails)
  end
  for _, timer in ipairs(timers) do
    equal(timer:is_closing(), true, "a timer is closed")
  end
end

local seen = 0

local function case(name, what, expected)
  seen = seen + 1
  test(what, function()
    check.truthy(texts[name], "the example " .. name .. " exists: this")
    run(name, expected)
  end)
end

local compute = { compute_something = noting "computed" }

case("parents_wait", "a parent waits for its children", { outcomes = "done done done", notes = "done", time = 100 })
case("errors_propagate", "an error goes up, and ends the siblings", {
  given = compute, outcomes = "failed failed closed", notes = "computed", time = 10,
  fails = "child error: example:4: child1 failed",
})
case("cancellation_propagates", "close goes down", { outcomes = "closed closed" })
case("a_scope", "a task is a scope", {
  given = { worker_function = function() sleep(30) end }, outcomes = "done done", time = 30,
})
case("where_it_is_created", "the parent is where a task was created", { outcomes = "done done done", time = 100 })
case("detached", "a detached task has no parent", { outcomes = "done done" })
case("coloring", "a wait deep in plain functions suspends the task", {
  given = { do_fetch = function(path) sleep(20) return { name = "user of " .. path } end },
  outcomes = "done", notes = "user of /users/123", time = 20,
})
case("how_tasks_execute", "a task runs up to its first wait at once", {
  outcomes = "done",
  notes = "This prints immediately; This might print first or second; This prints after a scheduler tick",
})
case("error_ends_a_sleep", "a child's error ends its parent's sleep", {
  outcomes = "failed failed closed", notes = "Still running...", time = 50,
})
case("synchronous_code", "synchronous code is not interrupted", { outcomes = "failed failed", time = 10 })
case("caught", "a child's error can be caught", {
  given = { compute_something = noting "computed", risky_operation = function() error("too risky", 0) end },
  outcomes = "done failed", notes = "computed; Caught error: child error: too risky",
})
case("edge_triggered", "a caught error is not raised again", {
  outcomes = "done failed", time = 11,
  notes = "Caught error: child error: example:4: child failed; Continued after handling error",
})
case("level_triggered", "a caught cancellation is raised again", {
  outcomes = "done closed", notes = "Caught first cancellation",
})
case("graceful", "a loop that catches errors ends when it is closed", {
  given = { do_work = noting "work", cleanup = noting "cleanup" }, close_after = 15,
  outcomes = "closed", notes = "work; work; cleanup; Shut down gracefully", time = 15,
})
case("pwait", "pwait returns the error", { outcomes = "failed", notes = "Task failed: example:2: failed" })
case("cancelled_now", "close interrupts a sleep at once", { outcomes = "closed" })
case("synchronous_start", "a child has run up to its first wait when it is closed", {
  outcomes = "done closed", time = 1,
})
case("whole_tree", "close reaches the whole tree", { outcomes = "closed closed closed closed" })
case("is_closing", "an unprotected wait ends a closed task", {
  given = { acquire_resource = function() return {} end, do_work = check.noting "work" }, close_after = 15,
  outcomes = "closed", notes = "work; work", time = 15,
})
case("a_timer", "a returned handle is closed", { outcomes = "done", time = 1000 })
case("a_file", "a file is processed and closed", {
  given = {
    io = { open = function() return { read = function() return "data" end, close = noting "closed" } end },
    process = function(text) sleep(10) note(text) end,
  },
  change = { "file:close", "file.close" },
  outcomes = "done", notes = "data; closed", time = 10,
})
case("a_database", "a body runs on at once", {
  given = {
    connect_to_database = function() return { close = function() note "closed" end } end,
    process_batch = function(_, i) sleep(i) end,
  },
  outcomes = ("done "):rep(11):sub(1, -2), notes = "closed", time = 10,
})
case("a_future", "a future calls back", {
  given = { some_callback_api = function(callback) callback(42) end }, outcomes = "done", notes = "Got: 42",
})
case("an_event", "an event wakes all in order", {
  outcomes = ("done "):rep(6):sub(1, -2), time = 100,
  notes = "Task 1 notified; Task 2 notified; Task 3 notified; Task 4 notified; Task 5 notified",
})

local busy = { now = 0, most = 0, count = 0 }

local function work()
  busy.now, busy.count = busy.now + 1, busy.count + 1
  busy.most = math.max(busy.most, busy.now)
  sleep(1)
  busy.now = busy.now - 1
end

before_each(function()
  busy.now, busy.most, busy.count = 0, 0, 0
end)

local function counted(name, what, most, items, expected)
  seen = seen + 1
  test(what, function()
    run(name, expected)
    equal(busy.most, most, "the most at once")
    equal(busy.count, items, "items")
  end)
end

counted("a_queue", "a consumer gets all up to the nil", 1, 100, {
  given = { process = work }, outcomes = "done done", time = 100,
})
counted("a_semaphore", "a semaphore lets three in at once", 3, 10, {
  given = { expensive_operation = work }, outcomes = ("done "):rep(10):sub(1, -2), time = 4,
})
counted("a_pool", "workers of a pool end at a nil each", 5, 90, {
  given = { process = work, work_item = function(i) return i <= 90 and i or nil end },
  outcomes = ("done "):rep(12):sub(1, -2), time = 18,
})
counted("limited", "a hundred items are processed five at once", 5, 100, {
  given = { process_item = work }, outcomes = ("done "):rep(101):sub(1, -2), time = 20,
})

local function fetch(name, ms)
  return function() sleep(ms) note(name) return name end
end

case("a_race", "the first child completes its parent", {
  given = { fetch_from_cache = fetch("cache", 30), fetch_from_network = fetch("network", 10) },
  outcomes = "done closed closed", notes = "network", time = 10,
})
case("a_timeout", "an operation that is late is closed", {
  given = { long_operation = function() sleep(60000) end },
  raises = "timeout", outcomes = "closed timeout", time = 5000,
})
case("background", "background work is closed in its sleep", {
  given = { get_next_work = function() return "work" end, process = noting "process", cleanup = noting "cleanup" },
  outcomes = "closed", notes = "process work",
})
case("an_option", "the default is used when the data is late", {
  given = {
    fetch_optional_data = function() sleep(250) end,
    use_default_data = noting "default", use_optional_data = noting "optional",
  },
  outcomes = "done", notes = "default", time = 250,
})

test("every example of the document is here", function()
  equal(seen, count)
end)
