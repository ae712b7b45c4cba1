-- `require` works as Lua's own, except that a module may wait while it loads. Another task that
-- requires the same module in the meantime waits for it; a module that requires itself gets an
-- error. The chunk's arguments are functions that return the running task and a new event; it
-- returns a function that makes a `require`.

local current, new_event = ...
local error, format, ipairs, pcall, select, setmetatable = error, string.format, ipairs, pcall, select, setmetatable
local tostring, type = tostring, type
local concat = table.concat

-- Searches where Lua's own `require` does. Returns the loader of a module and its second argument,
-- or nil and the reason. A C function calls the searchers, as in Lua: else their errors would begin
-- with a line of this file.
local function find_in(package)
  return function(name)
    local tried = {}
    for _, searcher in ipairs(package.searchers) do
      local ok, loader, extra = pcall(searcher, name)
      if not ok then
        error(loader, 0)
      elseif type(loader) == "function" then
        return loader, extra
      elseif type(loader) == "string" then
        tried[#tried + 1] = "\n\t" .. loader
      end
    end
    return nil, format("module '%s' not found:%s", name, concat(tried))
  end
end

-- `loaded` has the loaded modules by name; `find_loader` finds the loader of any other. Without
-- these arguments, Lua's own are used.
return function(loaded, find_loader)
  loaded, find_loader = loaded or package.loaded, find_loader or find_in(package)
  -- name -> { task = the task that loads it, done = an event for those who wait }
  -- A task that is ended at its deadline may have no time left to close its variables. So an entry
  -- also ends with its task, and is not kept here when the call that made it is gone.
  local loading = setmetatable({}, { __mode = "v" })

  local function load(name, loader, extra)
    local value = loader(name, extra)
    if value ~= nil then
      loaded[name] = value
    elseif loaded[name] == nil then
      loaded[name] = true
    end
    return loaded[name], extra
  end

  local finished = {
    __close = function(entry)
      loading[entry.name] = nil
      if entry.done then
        entry.done:set()
      end
    end,
  }

  local function load_in_task(task, name, loader, extra)
    local entry <close> = setmetatable({ name = name, task = task }, finished)
    loading[name] = entry
    return load(name, loader, extra)
  end

  return function(...)
    local name = ...
    if type(name) == "number" then
      name = tostring(name)
    elseif type(name) ~= "string" then
      local got = select("#", ...) == 0 and "no value" or type(name)
      error(format("bad argument #1 to 'require' (string expected, got %s)", got), 2)
    end
    local task = current()
    while true do
      if loaded[name] then
        return loaded[name]
      end
      local entry = loading[name]
      if not entry or not task or entry.task:status() == "completed" then
        break
      elseif entry.task == task then
        error(format("module '%s' requires itself while it is being loaded", name), 2)
      end
      if not entry.done then
        local done = new_event()
        entry.done = done
        entry.task:on_complete(function() done:set() end)
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
end
