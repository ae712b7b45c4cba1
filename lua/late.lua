-- The modules `eventloop`, `fs`, `net` and `worker`, whose files run when one of their functions is
-- first called (isolate/late.h). The chunk's arguments are the module's table; `load`, which runs a
-- file and returns its module; `note`, to be called for fields that the table does not have; and
-- whether scripts may have the standard streams.
--
-- Each function here ends in a tail call. So it leaves no frame between the script and the function
-- that does the work, whose errors name the script's line.

local orrery, load, note, has_stdio = ...
local setmetatable = setmetatable

local function late(name)
  local module
  return function()
    if not module then
      local loaded = load(name)
      module = module or loaded -- a finalizer may have loaded it meanwhile
    end
    return module
  end
end

-- The module itself can be called: `eventloop()`.
local eventloop = late("eventloop")
orrery.eventloop = setmetatable({
  new = function(...)
    return eventloop().new(...)
  end,
}, {
  __call = function(_, ...)
    return eventloop().new(...)
  end,
})

local worker = late("worker")
orrery.worker = {}
for _, name in next, { "map", "new", "pool", "register", "stats" } do
  orrery.worker[name] = function(...)
    return worker()[name](...)
  end
end

local fs = late("fs")
orrery.fs = {}
for _, name in next, { "absolute", "append_file", "basename", "copy", "dirname", "exists", "extension", "join", "link",
  "list", "lstat", "make_dir", "open", "read_file", "read_link", "remove", "rename", "stat", "symlink", "temp_dir",
  "temp_file", "walk", "write_file" } do
  orrery.fs[name] = function(...)
    return fs()[name](...)
  end
end

local net = late("net")
orrery.net = {}
for _, name in next, { "connect", "copy", "listen", "lookup", "pair", "pipe", "serve", "udp" } do
  orrery.net[name] = function(...)
    return net()[name](...)
  end
end

-- The standard streams are opened when a script first asks for them, and again when it asks for one
-- that was closed.
if has_stdio then
  local descriptors, streams = { stdin = 0, stdout = 1, stderr = 2 }, {}
  setmetatable(orrery, {
    __index = function(self, key)
      local descriptor = descriptors[key]
      if not descriptor then
        return note(self, key)
      end
      local stream = net().standard(key, descriptor, streams[key])
      streams[key] = stream
      return stream
    end,
    streams = streams,
  })
end
