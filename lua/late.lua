-- The modules `eventloop` and `worker`, whose files run when one of their functions is first called
-- (isolate/late.h). The chunk's arguments are the module's table and `load`, which runs the file of
-- a module and returns the module.
--
-- Each function here ends in a tail call. So it leaves no frame between the script and the function
-- that does the work, whose errors name the script's line.

local orrery, load = ...
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
