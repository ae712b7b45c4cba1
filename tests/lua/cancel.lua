-- Closing tasks at every moment of every wait: nothing is lost, and nothing is handed to the dead.

local check = require "check"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note

-- A kind of wait: make() gives wait(), grant() and count(), the last of what is free for others afterwards.
local kinds = {
  event = function()
    local event = async.event()
    return function() event:wait() end, function() event:set(1) end, nil
  end,
  semaphore = function()
    local semaphore = async.semaphore(1)
    semaphore:acquire()
    return function() semaphore:acquire() return function() semaphore:release() end end,
      function() semaphore:release() end, function() return semaphore:try_acquire() end
  end,
  ["queue get"] = function()
    local queue = async.queue()
    return function()
      local item = queue:get()
      return function() queue:put_nowait(item) end
    end, function() queue:put_nowait("item") end, function() return queue:get_nowait() == "item" end
  end,
  ["queue put"] = function()
    local queue = async.queue(1)
    queue:put("first")
    return function()
      queue:put("second")
      return function() equal(queue:get(), "second") end
    end, function() queue:get() end, function() return queue:put_nowait("third") end
  end,
  mutex = function()
    local mutex, owner = async.mutex(), async.event()
    async.run({ detached = true }, function()
      mutex:lock()
      owner:wait()
      mutex:unlock()
    end)
    return function() mutex:lock() return function() mutex:unlock() end end, function() owner:set() end,
      function() async.checkpoint() async.checkpoint() return mutex:try_lock() end
  end,
  condition = function()
    local mutex, condition = async.mutex(), async.condition()
    return function() mutex:with(condition.wait, condition, mutex) end, function() condition:notify() end,
      function() async.checkpoint() return mutex:try_lock() end
  end,
  future = function()
    local future = async.future()
    return function() async.await(future) end, function() future:complete(nil) end, nil
  end,
  task = function()
    local event = async.event()
    local task = async.run({ detached = true }, function() event:wait() end)
    return function() async.await(task) end, function() event:set() end, nil
  end,
  callback = function()
    local fire
    return function() async.await(function(callback) fire = callback end) end,
      function() if fire then fire() end end, nil
  end,
}

local function waiter(wait)
  return async.run({ detached = true }, function()
    local give_back = wait()
    note "got"
    if give_back then give_back() end
  end)
end

for name, make in pairs(kinds) do
  test(name .. ": closed while it waits, it gets nothing, and what comes is for the others", function()
    local wait, grant, free = make()
    local task = waiter(wait)
    task:close()
    equal(select(2, async.pawait(task)), "closed")
    grant()
    check.notes ""
    check.truthy(not free or free(), "what was granted is free")
  end)

  test(name .. ": closed and granted in one go, the one before closes it", function()
    local wait, grant, free = make()
    local first, second = waiter(wait), waiter(wait)
    first:close()
    grant()
    equal(select(2, async.pawait(first)), "closed")
    if free or name == "event" then
      async.await(second)
      check.notes "got"
    else
      second:close()
    end
  end)

  test(name .. ": granted and then closed, it has it, and hears of it when it next waits", function()
    local wait, grant = make()
    local task = async.run({ detached = true }, function()
      local give_back = wait()
      note "got"
      if give_back then give_back() end
      async.sleep(1)
      note "wrong"
    end)
    grant()
    task:close()
    local ok, err = async.pawait(task)
    equal(ok, false)
    equal(err, "closed")
  end)

  test(name .. ": closed before it waits, it does not begin to", function()
    local wait, _, free = make()
    local task = async.run({ detached = true }, function()
      async.current():close()
      wait()
    end)
    equal(select(2, async.pawait(task)), "closed")
    check.notes ""
    check.truthy(not free or name == "condition" or not free() or name == "mutex", "it took nothing")
  end)

  test(name .. ": a time limit ends it as closing does", function()
    local wait = make()
    equal(select(2, pcall(async.with_timeout, 10, wait)), "timeout")
    equal(check.elapsed(), 10)
    async.sleep(1)
  end)
end

test("closed is raised again at every wait, until the end", function()
  local task = async.run(function()
    for _ = 1, 3 do
      note(select(2, pcall(async.sleep, 10)))
    end
    note(async.is_closing())
    async.checkpoint()
  end)
  task:close()
  check.notes "closed; closed; closed; true"
  equal(select(2, async.pawait(task)), "closed")
end)

test("a task may close itself, its parent and its siblings, in any state", function()
  equal(select(2, async.pawait(async.run(function()
    async.current():close()
    async.sleep(1)
  end))), "closed")
  local parent
  parent = async.run(function()
    async.run(function()
      async.sleep(1)
      parent:close() -- which awaits
    end)
    async.sleep(100)
  end)
  equal(select(2, async.pawait(parent)), "closed")
  local normal
  normal = async.run(function()
    async.sleep(1)
    async.run(function() normal:close() end) -- which is normal
    async.sleep(100)
  end)
  equal(select(2, async.pawait(normal)), "closed")
  async.scope(function()
    local sibling = async.run(pcall, async.sleep, 100)
    async.run(function() sibling:close() end)
  end)
  equal(check.elapsed(), 2)
end)

test("closing goes down the whole tree before the caller goes on, a task before its children", function()
  local function sleeper(name)
    return async.run(function()
      pcall(async.sleep, 1000)
      note(name)
    end)
  end
  local task = async.run(function()
    async.run(function()
      sleeper "grandchild"
      pcall(async.sleep, 1000)
      note "first"
    end)
    sleeper "second"
    pcall(async.sleep, 1000)
    note "parent"
  end)
  task:close()
  note "caller"
  check.notes "parent; first; grandchild; second; caller"
end)

test("a closed child does not fail its parent", function()
  local child = async.run(async.sleep, 1000)
  child:close()
  async.sleep(10)
  equal(child:status(), "completed")
end)

test("waiting for a descriptor can be closed, and goes on working", function()
  local pipe = io.popen("sleep 0.05; echo done")
  equal(select(2, pcall(async.with_timeout, 0, async.readable, 0)) ~= nil, true)
  check.raises("Bad file descriptor", async.readable, 1234567)
  pipe:close()
end)

check.done()
