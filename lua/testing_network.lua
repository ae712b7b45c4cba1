-- The part of `testing.network` that is written in Lua. The chunk's arguments are the module's
-- table, the methods of networks, and `place`, which puts the running task on a host.

local orrery, Network, place = ...
local run = orrery.async.run
local error, format, type = error, string.format, type

---Runs a function on a host: a task of its own, as async.run() makes it. Everything that the task
---and the tasks below it open is on that host.
function Network:host(name, fn, ...)
  if type(name) ~= "string" or type(fn) ~= "function" then
    error(format("network:host: expected a name and a function, got a %s and a %s", type(name), type(fn)), 2)
  end
  return run({ name = name }, function(...)
    place(self, name)
    return fn(...)
  end, ...)
end
