-- The examples of the document on structured concurrency, word for word and in its order: resources
-- and synchronization.  Where the document is wrong, the test says what really happens.

local check = require "check"
local example = require "example"
local async = require("orrery").async
local loop = require("orrery").loop
local test, equal, note = check.test, check.equal, check.note
local time_is, busy, in_order = example.time_is, example.busy, example.in_order

-- --- Resource management -------------------------------------------------------------------------

local a_timer = [[
vim.async.run(function()
  vim.async.await(function(callback)
    local timer = vim.uv.new_timer()
    timer:start(1000, 0, callback)

    -- Return the timer - it will be closed automatically
    return timer
  end)
end)
]]

test("a returned handle is closed when the wait ends well", function()
  local run = example.start(a_timer)
  local timer = run.made[1]
  equal(timer:is_closing(), false)
  run.script:wait()
  time_is(1000)
  equal(timer:is_closing(), true)
end)

test("a returned handle is closed when the task is cancelled", function()
  local run = example.start(a_timer)
  async.sleep(10)
  run.script:close()
  equal(run.made[1]:is_closing(), true)
  equal(example.outcomes(run), "closed")
  time_is(10)
end)

test("a returned handle is closed when the wait ends with an error", function()
  local timer
  local task = async.run(function()
    async.run(function()
      async.sleep(5)
      error("broken", 0)
    end)
    async.await(function(callback)
      timer = loop.new_timer()
      timer:start(1000, 0, callback)
      return timer
    end)
  end)
  check.raises("broken", task.wait, task)
  equal(timer:is_closing(), true)
  time_is(5)
end)

test("a returned handle is closed when its wait ends, though the task goes on", function()
  local source, count = a_timer:gsub("  end%)\nend%)", "  end)\n  vim.async.sleep(500)\nend)")
  equal(count, 1)
  local run = example.start(source)
  async.sleep(1200)
  equal(example.outcomes(run), "awaiting")
  equal(run.made[1]:is_closing(), true)
  run.script:wait()
  time_is(1500)
end)

test("any object with a close method is closed, once", function()
  local object = {}
  function object.close(self)
    note("closed", self)
  end
  async.run(function()
    async.await(function(callback)
      callback()
      return object
    end)
    note "goes on"
  end)
  check.notes("closed " .. tostring(object) .. "; goes on")
end)

test("the close method of a returned object gets a callback", function()
  local object = {
    close = function(_, callback)
      note(type(callback))
      callback()
    end,
  }
  async.await(function(callback)
    callback()
    return object
  end)
  check.notes "function"
end)

local a_file = [[
vim.async.run(function()
  local file = io.open('data.txt', 'r')

  local ok, result = pcall(function()
    return process(file:read('*all'))
  end)

  file:close()

  if not ok then error(result) end
  return result
end)
]]

-- An `io` whose `open` opens a file of the test, for any name.
local function files()
  local name = os.tmpname()
  local out = assert(io.open(name, "w"))
  out:write "some data"
  out:close()
  local self = {}
  self.open = function(asked, mode)
    equal(asked, "data.txt")
    self.file = assert(io.open(name, mode))
    os.remove(name)
    return self.file
  end
  return self
end

test("a file is closed when its contents were processed", function()
  local fake = files()
  local run = example.run(a_file, { io = fake, process = string.upper })
  equal(run.tasks[1]:wait(), "SOME DATA")
  equal(io.type(fake.file), "closed file")
end)

test("a file is closed when processing it fails, and the error goes on", function()
  local fake = files()
  example.fails("not this", a_file, {
    io = fake,
    process = function()
      error "not this"
    end,
  })
  equal(io.type(fake.file), "closed file")
end)

test("processing may wait inside pcall", function()
  local fake = files()
  local run = example.run(a_file, {
    io = fake,
    process = function(text)
      async.sleep(10)
      return #text
    end,
  })
  equal(run.tasks[1]:wait(), 9)
  time_is(10)
end)

local a_database = [[
vim.async.run(function()
  local db = connect_to_database()

  -- Launch multiple workers
  for i = 1, 10 do
    vim.async.run(function()
      process_batch(db, i)
    end)
  end

  -- All workers complete before we get here
  db:close()
end)
]]

local function database()
  local db = { batches = 0 }
  function db:close()
    note("closed after", self.batches)
  end
  local function process_batch(self, i)
    async.sleep(i)
    self.batches = self.batches + 1
  end
  return db,
    {
      connect_to_database = function()
        return db
      end,
      process_batch = process_batch,
    }
end

test("a body runs on at once: the database is closed before its workers are done", function()
  local db, supplied = database()
  local run = example.start(a_database, supplied)
  check.notes "closed after 0"
  run.script:wait()
  equal(db.batches, 10)
  time_is(10)
end)

test("inside async.scope all workers complete before the body goes on", function()
  local _, supplied = database()
  local source, count = a_database:gsub("(%-%- Launch.*)(  %-%- All workers)", "vim.async.scope(function()\n%1end)\n%2")
  equal(count, 1)
  example.run(source, supplied)
  check.notes "closed after 10"
  time_is(10)
end)

-- --- Synchronization primitives ------------------------------------------------------------------

local a_future = [[
local future = vim.async._future()

some_callback_api(function(result)
  future:complete(nil, result)
end)

-- Later, wait for the result
vim.async.run(function()
  future:wait(function(err, result)
    print("Got:", result)
  end)
end)
]]

test("a future brings the result of a callback", function()
  example.run(a_future, {
    some_callback_api = function(callback)
      loop.set_timeout(30, function()
        callback(42)
      end)
    end,
  })
  check.notes "Got: 42"
  time_is(30)
end)

test("a future that is completed already calls back at once", function()
  example.start(a_future, {
    some_callback_api = function(callback)
      callback "at once"
    end,
  })
  check.notes "Got: at once"
end)

local an_event = [[
local event = vim.async._event()

-- Multiple waiters
for i = 1, 5 do
  vim.async.run(function()
    event:wait()
    print("Task", i, "notified")
  end)
end

-- Signal all
vim.async.run(function()
  vim.async.sleep(100)
  event:set()  -- All 5 tasks wake up
end)
]]

test("an event wakes all that wait for it, in order", function()
  local run = example.start(an_event)
  async.sleep(99)
  check.notes ""
  run.script:wait()
  check.notes "Task 1 notified; Task 2 notified; Task 3 notified; Task 4 notified; Task 5 notified"
  time_is(100)
  equal(run.made[1]:is_set(), true)
end)

local a_queue = [[
local queue = vim.async._queue(10)  -- Bounded queue

-- Producer
vim.async.run(function()
  for i = 1, 100 do
    queue:put(i)  -- Blocks if queue is full
  end
  queue:put(nil)
end)

-- Consumer
vim.async.run(function()
  while true do
    local item = queue:get()  -- Blocks if queue is empty
    if not item then break end
    process(item)
  end
end)
]]

test("a consumer gets all that was put, in order, up to the nil", function()
  local got = {}
  local run = example.run(a_queue, {
    process = function(item)
      got[#got + 1] = item
    end,
  })
  in_order(got, 100)
  equal(example.outcomes(run), "done done")
  equal(#run.made[1], 0)
end)

test("a producer waits while the queue is full", function()
  local run
  local most = 0
  local slow = busy(1)
  run = example.start(a_queue, {
    process = function(item)
      slow.fn(item)
      most = math.max(most, #run.made[1])
    end,
  })
  equal(#run.made[1], 10)
  run.script:wait()
  in_order(slow.began, 100)
  equal(most, 10)
  time_is(100)
end)

local a_semaphore = [[
local semaphore = vim.async.semaphore(3)  -- Max 3 concurrent

local tasks = {}
for i = 1, 10 do
  tasks[i] = vim.async.run(function()
    semaphore:with(function()
      -- Only 3 tasks can be in this block at once
      -- (though only 1 actually executes at any moment)
      expensive_operation(i)
    end)
  end)
end
]]

test("a semaphore lets three in at once, in order of arrival", function()
  local operation = busy(10)
  local run = example.start(a_semaphore, { expensive_operation = operation.fn })
  equal(operation.now, 3)
  run.script:wait()
  equal(operation.most, 3)
  in_order(operation.began, 10)
  time_is(40)
end)

test("an operation that fails gives its permit back", function()
  local run, err = example.fails("too expensive", a_semaphore, {
    expensive_operation = function(i)
      async.sleep(i)
      error("too expensive: " .. i, 0)
    end,
  })
  equal(err, "too expensive: 1")
  equal(example.outcomes(run), "failed" .. (" closed"):rep(9))
  for _ = 1, 3 do
    equal(run.made[1]:try_acquire(), true)
  end
  equal(run.made[1]:try_acquire(), false)
  time_is(1)
end)

local a_pool = [[
local queue = vim.async._queue()
local semaphore = vim.async.semaphore(5)

vim.async.run(function()
  -- Producer
  vim.async.run(function()
    for i = 1, 100 do
      queue:put(work_item(i))
    end
  end)

  -- Worker pool
  local workers = {}
  for i = 1, 10 do
    workers[i] = vim.async.run(function()
      while true do
        local item = queue:get()
        if not item then break end

        semaphore:with(function()
          process(item)
        end)
      end
    end)
  end

  vim.async.await_all(workers)
end)
]]

test("workers of a pool end at a nil each, and no more than five process at once", function()
  local work = busy(2)
  local run = example.run(a_pool, {
    work_item = function(i)
      return i <= 90 and i or nil
    end,
    process = work.fn,
  })
  in_order(work.began, 90)
  equal(work.ended, 90)
  equal(work.most, 5)
  equal(example.outcomes(run), ("done "):rep(12):sub(1, -2))
  time_is(36)
end)

test("workers of a pool that gets no nil wait until they are closed", function()
  local work = busy(2)
  local run = example.start(a_pool, {
    work_item = function(i)
      return i
    end,
    process = work.fn,
  })
  async.sleep(1000)
  equal(work.ended, 100)
  equal(example.outcomes(run), "awaiting done" .. (" awaiting"):rep(10))
  run.script:close()
  equal(example.outcomes(run), "closed done" .. (" closed"):rep(10))
  equal(run.script:status(), "completed")
  for _ = 1, 5 do
    equal(run.made[2]:try_acquire(), true, "a permit")
  end
end)

-- --- Implementation notes ------------------------------------------------------------------------

test("callbacks that complete at once do not grow the stack", function()
  for i = 1, 100000 do
    equal(
      async.await(function(callback)
        callback(i)
      end),
      i
    )
  end
end)

test("a done task without references can be collected", function()
  local held = setmetatable({}, { __mode = "v" })
  held[1] = async.run(function()
    async.sleep(1)
    return {}
  end)
  async.sleep(2)
  collectgarbage()
  collectgarbage()
  equal(held[1], nil)
end)
