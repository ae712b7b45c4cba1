-- `load`, `require` and globals for untrusted scripts. Scripts share globals, or have their own: a
-- table that reads from a read-only view of the shared ones. The chunk's arguments are C functions,
-- the module, the maker of `require`, and the modules that the host has registered. It returns a
-- function that makes new globals.

local tools, orrery, make_require, registered = ...
local error, format, next, setmetatable, tostring, type = error, string.format, next, setmetatable, tostring, type
local metamethod = tools.metamethod
local shared = _G
local async = orrery.async

-------------------------------------------------------------------------------------------- the API

-- These reach beyond the isolate: descriptors belong to the host, and the tree shows all tasks of
-- the worker.
async.readable, async.writable = nil, nil

local inspect_tree, current = async.inspect_tree, async.current

function async.inspect_tree(task)
  task = task or current()
  return task and inspect_tree(task) or ""
end

---------------------------------------------------------------------------------------------- views

local views = setmetatable({}, { __mode = "k" }) -- table -> its view; a view -> itself
local hidden = {} -- functions that work on the shared globals

local make_view

local function view(value, name)
  if type(value) == "table" then
    return views[value] or make_view(value, name)
  elseif not hidden[value] then
    return value
  end
end

-- `copy`, if given, holds the views of the table's contents, so that reading from it is fast.
function make_view(real, name, copy)
  name = tostring(name)
  local function read(_, key)
    return view(real[key], key)
  end
  local function each(_, key)
    local value
    key, value = next(real, key)
    return key, view(value, key)
  end
  local class = {
    __readonly = name,
    __metatable = false,
    __index = copy or read,
    __newindex = function()
      error(format("attempt to change a read-only table (%s)", name), 2)
    end,
    __pairs = function(self)
      return each, self, nil
    end,
    __len = function()
      return #real
    end,
  }
  if metamethod(real, "__call") then
    function class.__call(_, ...)
      return real(...)
    end
  end
  if metamethod(real, "__tostring") then
    function class.__tostring()
      return tostring(real)
    end
  end
  local made = setmetatable({}, class)
  views[real], views[made] = made, made
  return made
end

-- Tables that are read often have copies, which are updated whenever new globals are made.
local copies = {} -- table -> its copy
local names = {} -- shared globals that are Lua's own

local function copy_from(real, copy)
  for key in next, copy do
    copy[key] = nil
  end
  for key, value in next, real do
    copy[key] = view(value, key)
  end
end

for name, value in next, registered do
  copies[value] = name == "orrery" and tools.watch({}, name) or {}
  make_view(value, name, copies[value])
end
for _, name in next, { "async", "loop" } do
  copies[orrery[name]] = tools.watch({}, name)
  make_view(orrery[name], name, copies[orrery[name]])
end
for name in next, shared do
  names[#names + 1] = name
end

local seen = setmetatable({}, {
  __index = function(_, name)
    return view(shared[name], name)
  end,
})

local function update_copies()
  for real, copy in next, copies do
    copy_from(real, copy)
  end
  for _, name in next, names do
    seen[name] = view(shared[name], name)
  end
end

-------------------------------------------------------------------------------------------- require

-- Looks among the host's modules, then in its folders. `see` turns a value of the host into what
-- the script sees.
local function finder(globals, see)
  return function(name)
    local value = registered[name]
    if type(value) == "function" then
      return value, ":host:"
    elseif value ~= nil then
      return function()
        return see(value, name)
      end, ":host:"
    end
    local chunk, path = tools.load_module(name, globals)
    if chunk then
      return chunk, path
    end
    return nil, format("module '%s' not found:%s", name, path)
  end
end

local function identity(value)
  return value
end

shared.load, shared.require = tools.make_load(shared), make_require({}, finder(shared, identity))
hidden[shared.load], hidden[shared.require] = true, true

return function()
  update_copies()
  local globals = setmetatable({}, { __index = seen, __metatable = false })
  globals._G = globals
  globals.load, globals.require = tools.make_load(globals), make_require({}, finder(globals, view))
  return globals
end
