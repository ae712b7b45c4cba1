-- Does one operation of the API many times: operations.lua NAME COUNT.  bench/instructions counts.
local orrery = require("orrery")
local async = orrery.async
local name, count = arg[1], tonumber(arg[2])
local operations = {}

function operations.run_and_await()
  async.await(async.run(function() end))
end

function operations.sleep()
  async.sleep(0.001)
end

function operations.checkpoint()
  async.checkpoint()
end

function operations.schedule()
  orrery.schedule(function() end)
  async.checkpoint()
end

function operations.timer()
  local timer = orrery.loop.new_timer()
  timer:start(0, 0, function() end)
  async.sleep(0.01)
  timer:close()
end

orrery.events:on("event", function() end)
function operations.emit()
  orrery.events:emit("event", 1)
end

function operations.coroutine()
  local step = coroutine.wrap(function() coroutine.yield(1) end)
  step()
  step()
end

local mutex = async.mutex()
function operations.mutex()
  mutex:lock()
  mutex:unlock()
end

local kept
function operations.tables()
  kept = { count, { kept and 1 } }
end

function operations.find()
  return ("hello world from lua"):find("w(%a+)d")
end

async.run(function()
  local operation = assert(operations[name], "no such operation")
  for _ = 1, count do
    operation()
  end
end)
