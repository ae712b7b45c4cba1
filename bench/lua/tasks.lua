-- Lua tasks beside bare coroutines of the same Lua in the same process.  Figures are for one task,
-- one wait, one item.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path
local figure = require "figure"
local orrery = require "orrery"
local async = orrery.async
local run, await, sleep, checkpoint = async.run, async.await, async.sleep, async.checkpoint

local raw = figure.bare_coroutines()
local create, resume, yield = raw.create, raw.resume, raw.yield

local COUNT = 200000
local MANY = 10000
local FOREVER = 1e12

local function nothing() end

-- Nanoseconds of processor time for one of `count` calls: so other programs matter less.
local function timed(count, fn, ...)
  local start = os.clock()
  fn(...)
  return (os.clock() - start) * 1e9 / count
end

-- --- Making --------------------------------------------------------------------------------------

local function spawn()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      run(nothing)
    end
  end)
end

local function spawn_await()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      await(run(nothing))
    end
  end)
end

local function raw_run()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      resume(create(nothing))
    end
  end)
end

-- Children that wait once, all alive at the same time, each awaited.
local function children()
  return timed(MANY, function()
    local tasks = {}
    for i = 1, MANY do
      tasks[i] = run(checkpoint)
    end
    for i = 1, MANY do
      await(tasks[i])
    end
  end)
end

local function raw_children()
  return timed(MANY, function()
    local list = {}
    for i = 1, MANY do
      list[i] = create(yield)
      resume(list[i])
    end
    for i = 1, MANY do
      resume(list[i])
    end
  end)
end

-- --- Waiting -------------------------------------------------------------------------------------

local function call_back(done)
  done()
end

local function await_callback()
  return timed(COUNT, function()
    for _ = 1, COUNT do
      await(call_back)
    end
  end)
end

local function yield_often()
  while true do
    yield()
  end
end

local function raw_resume()
  local co = create(yield_often)
  return timed(COUNT, function()
    for _ = 1, COUNT do
      resume(co)
    end
  end)
end

local function repeated(wait, argument)
  return function()
    return timed(COUNT, function()
      for _ = 1, COUNT do
        wait(argument)
      end
    end)
  end
end

-- Two tasks in turn: each makes one wait, one set and one clear.
local function ping_pong()
  local mine, other = async.event(), async.event()
  local partner = run(function()
    for _ = 1, COUNT / 2 do
      other:wait()
      other:clear()
      mine:set()
    end
  end)
  local ns = timed(COUNT, function()
    for _ = 1, COUNT / 2 do
      other:set()
      mine:wait()
      mine:clear()
    end
  end)
  await(partner)
  return ns
end

-- All tasks wait for one event, and then for the next.
local function broadcast()
  local events, tasks, left = { async.event(), async.event() }, {}, 0
  for i = 1, MANY do
    tasks[i] = run(function()
      events[1]:wait()
      left = left - 1
      events[2]:wait()
    end)
  end
  left = MANY
  local ns = timed(MANY, function()
    events[1]:set()
    while left > 0 do
      checkpoint()
    end
  end)
  events[2]:set()
  for i = 1, MANY do
    await(tasks[i])
  end
  return ns
end

local function close_all(make)
  local never, tasks = async.event(), {}
  for i = 1, MANY do
    tasks[i] = make(never)
  end
  return timed(MANY, function()
    for i = 1, MANY do
      tasks[i]:close()
    end
  end)
end

-- The body is the wait, as it is in the bare coroutine.
local function close_suspended()
  return close_all(function(never)
    return run(never.wait, never)
  end)
end

-- The body is a function of the script, in which `closed` is raised.
local function close_suspended_function()
  return close_all(function(never)
    return run(function()
      never:wait()
    end)
  end)
end

local function raw_close()
  local list = {}
  for i = 1, MANY do
    list[i] = create(yield)
    resume(list[i])
  end
  local close = raw.close
  return timed(MANY, function()
    for i = 1, MANY do
      close(list[i])
    end
  end)
end

-- --- Passing on ----------------------------------------------------------------------------------

-- One task puts, another gets: with a bound of 1, each waits for the other every time.
local function queue_of(bound)
  return function()
    local queue = async.queue(bound)
    return timed(COUNT, function()
      local producer = run(function()
        for i = 1, COUNT do
          queue:put(i)
        end
      end)
      for _ = 1, COUNT do
        queue:get()
      end
      await(producer)
    end)
  end
end

-- One task puts and gets, so that nothing waits.
local function queue_unbounded()
  local queue = async.queue()
  return timed(COUNT, function()
    for i = 1, COUNT do
      queue:put(i)
      queue:get()
    end
  end)
end

local function semaphore()
  local permits = async.semaphore(1)
  return timed(COUNT, function()
    for _ = 1, COUNT do
      permits:acquire()
      permits:release()
    end
  end)
end

-- --- Among others --------------------------------------------------------------------------------

local function with_sleepers(count, subject)
  return function()
    local tasks = {}
    for i = 1, count do
      tasks[i] = run(sleep, FOREVER)
    end
    collectgarbage()
    local ns = subject()
    for i = 1, count do
      tasks[i]:close()
    end
    return ns
  end
end

local function with_suspended(count, subject)
  return function()
    local list = {}
    for i = 1, count do
      list[i] = create(yield)
      resume(list[i])
    end
    collectgarbage()
    local ns = subject()
    return #list == count and ns
  end
end

-- --- Weight --------------------------------------------------------------------------------------

-- What the core has for a task, as `task_bytes` of bench_structure; without the slot of its waker,
-- which belongs to the process.  The wait of a sleeping task is in the handle, which belongs to
-- Lua, so collectgarbage counts it.  One run is enough, because nothing varies.
local CORE_BYTES = 216.8
-- Fills the core's table, and nearly that of the anchors: hardly an empty slot is counted.
local WEIGHED = 64 * 2047

local function weigh(make)
  collectgarbage()
  collectgarbage()
  local list = {}
  for i = 1, WEIGHED do
    list[i] = false
  end
  local before = collectgarbage("count")
  for i = 1, WEIGHED do
    list[i] = make()
  end
  collectgarbage()
  collectgarbage()
  return (collectgarbage("count") - before) * 1024 / WEIGHED, list
end

local function weigh_sleeping()
  local bytes, tasks = weigh(function()
    return run(sleep, FOREVER)
  end)
  for i = 1, WEIGHED do
    tasks[i]:close()
  end
  return bytes + CORE_BYTES
end

local function weigh_raw()
  return (weigh(function()
    local co = create(yield)
    resume(co)
    return co
  end))
end

-- --- All of it -----------------------------------------------------------------------------------

local figures = {
  { "lua_spawn", spawn, "raw_create_run", raw_run },
  { "lua_spawn_await", spawn_await, "raw_create_run", raw_run },
  { "lua_children_of_10000", children, "raw_create_resume_twice", raw_children },
  { "lua_await_callback", await_callback, "raw_resume_yield", raw_resume },
  { "lua_checkpoint", repeated(checkpoint), "raw_resume_yield", raw_resume },
  { "lua_event_ping_pong", ping_pong, "raw_resume_yield", raw_resume },
  { "lua_sleep_0", repeated(sleep, 0), "raw_resume_yield", raw_resume },
  { "lua_event_waiter_of_10000", broadcast, "raw_resume_yield", raw_resume },
  { "lua_close_suspended", close_suspended, "raw_close_suspended", raw_close },
  { "lua_close_suspended_function", close_suspended_function, "raw_close_suspended", raw_close },
  { "lua_queue_item", queue_unbounded },
  { "lua_queue_item_two_tasks", queue_of(nil) },
  { "lua_queue_item_bound_1", queue_of(1) },
  { "lua_semaphore_pair", semaphore },
}
for _, count in ipairs({ 10, 1000, 100000 }) do
  table.insert(figures, {
    string.format("lua_spawn_await_%d_siblings", count), with_sleepers(count, spawn_await),
    string.format("raw_create_run_%d_others", count), with_suspended(count, raw_run),
  })
end
for _, count in ipairs({ 10, 1000, 100000 }) do
  table.insert(figures, {
    string.format("lua_checkpoint_%d_siblings", count), with_sleepers(count, repeated(checkpoint)),
    string.format("raw_resume_yield_%d_others", count), with_suspended(count, raw_resume),
  })
end

local pattern = arg[1] or ""
for _, each in ipairs(figures) do
  local name, subject, peer_name, peer = table.unpack(each)
  if name:find(pattern) then
    figure.compare(name, "ns", subject, peer_name, peer)
  end
end
if ("lua_sleeping_task"):find(pattern) then
  local ours, theirs = weigh_sleeping(), weigh_raw()
  figure.line("lua_sleeping_task", ours, "bytes", ours / theirs, "raw_suspended")
  figure.line("raw_suspended", theirs, "bytes")
end
