-- The type definitions for editors name exactly what the API has.

local check = require "check"
local orrery = require "orrery"
local async = orrery.async

-- The classes, by the names that types/orrery.lua gives them.
local classes = {
  orrery = orrery,
  async = async,
  loop = orrery.loop,
  events = orrery.events,
  eventloop = orrery.eventloop,
  PrivateLoop = orrery.eventloop.new(),
  runtime = orrery.runtime,
  values = orrery.values,
  json = orrery.json,
  testing = orrery.testing,
  Task = getmetatable(async.current()),
  Future = getmetatable(async.future()),
  Event = getmetatable(async.event()),
  Queue = getmetatable(async.queue()),
  Semaphore = getmetatable(async.semaphore(1)),
  Mutex = getmetatable(async.mutex()),
  Condition = getmetatable(async.condition()),
  Timer = getmetatable(orrery.loop.new_timer()),
  worker = orrery.worker,
  Worker = debug.getmetatable(orrery.worker.new "").__index,
  Pool = debug.getmetatable(orrery.worker.pool()).__index,
  Channel = getmetatable(orrery.worker.channel()),
  Scheduled = getmetatable(orrery.schedule(function() end)),
}

local function declared()
  local here = package.searchpath("check", package.path)
  local path = here:gsub("tests/lua/check%.lua$", "types/orrery.lua")
  local names = {}
  for line in io.lines(path) do
    local class, name = line:match "^function (%a+)[.:]([%w_]+)%("
    if class then
      names[class .. "." .. name] = true
    end
  end
  return names
end

check.test("every function that the types name is there", function()
  for name in pairs(declared()) do
    local class, method = name:match "^(.-)%.(.*)$"
    check.truthy(classes[class], "a class named " .. class)
    check.equal(type(classes[class][method]), "function", name)
  end
end)

check.test("every function that is there has a type", function()
  local names = declared()
  for class, methods in pairs(classes) do
    for method, value in pairs(methods) do
      if type(value) == "function" and not method:find "^_" then
        check.truthy(names[class .. "." .. method], class .. "." .. method .. " in types/orrery.lua")
      end
    end
  end
end)
