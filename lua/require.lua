-- `require`, as Lua's own, except that a module may wait while it loads.  Another task that wants the same module
-- meanwhile waits for it; a module that needs itself is told so.

local orrery = ...
local async = orrery.async
local loaded = package.loaded
local loading = {} -- name -> { task = who loads it, done = an event }

-- The loader of a module and what is passed to it besides the name; or nil and why there is none.
local function find_loader(name)
  local tried = {}
  for _, searcher in ipairs(package.searchers) do
    local loader, extra = searcher(name)
    if type(loader) == "function" then
      return loader, extra
    elseif type(loader) == "string" then
      tried[#tried + 1] = "\n\t" .. loader
    end
  end
  return nil, string.format("module '%s' not found:%s", name, table.concat(tried))
end

local function load(name, loader, extra)
  local value = loader(name, extra)
  if value ~= nil then
    loaded[name] = value
  elseif loaded[name] == nil then
    loaded[name] = true
  end
  return loaded[name], extra
end

local finished = { __close = function(entry)
  loading[entry.name] = nil
  entry.done:set()
end }

local function load_in_task(task, name, loader, extra)
  local entry <close> = setmetatable({ name = name, task = task, done = async.event() }, finished)
  loading[name] = entry
  return load(name, loader, extra)
end

function require(name) -- luacheck: ignore
  if type(name) ~= "string" then
    error(string.format("bad argument #1 to 'require' (string expected, got %s)", type(name)), 2)
  end
  local task = async.current()
  while true do
    if loaded[name] then
      return loaded[name]
    end
    local entry = loading[name]
    if not entry or not task then
      break
    elseif entry.task == task then
      error(string.format("module '%s' requires itself while it is being loaded", name), 2)
    end
    entry.done:wait()
  end
  local loader, extra = find_loader(name)
  if not loader then
    error(extra, 2)
  elseif not task then
    return load(name, loader, extra)
  end
  return load_in_task(task, name, loader, extra)
end
