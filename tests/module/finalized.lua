-- Objects that were made before the module was loaded are finalized after it has been closed, and
-- may still call the API.
local orrery

local function try(name, value)
  if type(value) == "function" then
    for _, argument in ipairs { false, 1, "return 1", function() end } do
      pcall(value, argument or nil)
      pcall(value, argument, argument, argument)
      pcall(value, orrery[name], argument)
    end
  end
end

local early = setmetatable({}, {
  __gc = function()
    assert(not pcall(orrery.run, print), "run in a state that is being closed")
    assert(not pcall(orrery.async.run, print), "a task in a state that is being closed")
    for name, value in pairs(orrery) do
      try(name, value)
      for _, inner in pairs(type(value) == "table" and value or {}) do
        try(name, inner)
      end
    end
    print("ok")
  end,
})

orrery = require "orrery"
orrery.run(function() orrery.worker.new("return 1"):call(1) end)
assert(early)
