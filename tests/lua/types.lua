-- The type definitions for editors name exactly what the API has.

local check = require "check"
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
assert(orrery.fs.temp_file()):close() -- which adds the methods of files to those of streams
local stream, other_end = net.pair()
local server <close> = net.serve("127.0.0.1:0", function() end)
local listener, datagram = net.listen("127.0.0.1:0"), net.udp("127.0.0.1:0")

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
  fs = orrery.fs,
  net = net,
  Stream = getmetatable(stream),
  Listener = getmetatable(listener),
  Datagram = getmetatable(datagram),
  Server = debug.getmetatable(server).__index,
  Network = getmetatable(orrery.testing.network()),
  Scheduled = getmetatable(orrery.schedule(function() end)),
}

for _, object in pairs({ stream, other_end, listener, datagram }) do
  object:close()
end

-- Those of types/orrery_async_nvim.lua.
local async_nvim = require "orrery.async_nvim"
local nvim_classes = {
  async_nvim = async_nvim,
  Task = getmetatable(async_nvim.run(function() end)),
  Future = getmetatable(async_nvim.future()),
  Event = getmetatable(async_nvim.event()),
  Queue = getmetatable(async_nvim.queue()),
  Semaphore = getmetatable(async_nvim.semaphore()),
}

local function declared(file)
  local here = package.searchpath("check", package.path)
  local path = here:gsub("tests/lua/check%.lua$", "types/" .. file)
  local names = {}
  for line in io.lines(path) do
    local class, name = line:match "^function ([%a_]+)[.:]([%w_]+)%("
    if class then
      names[class .. "." .. name] = true
    end
  end
  return names
end

local function names_exist(file, classes_of_file)
  for name in pairs(declared(file)) do
    local class, method = name:match "^(.-)%.(.*)$"
    check.truthy(classes_of_file[class], "a class named " .. class)
    check.equal(type(classes_of_file[class][method]), "function", name)
  end
end

local function functions_are_named(file, classes_of_file)
  local names = declared(file)
  for class, methods in pairs(classes_of_file) do
    for method, value in pairs(methods) do
      if type(value) == "function" and not method:find "^_" then
        check.truthy(names[class .. "." .. method], class .. "." .. method .. " in types/" .. file)
      end
    end
  end
end

check.test("every function that the types name is there", function()
  names_exist("orrery.lua", classes)
  names_exist("orrery_async_nvim.lua", nvim_classes)
end)

check.test("every function that is there has a type", function()
  functions_are_named("orrery_async_nvim.lua", nvim_classes)
  functions_are_named("orrery.lua", classes)
end)
