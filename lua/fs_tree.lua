-- Trees of directories, for the module `fs`: listing, walking, removing. The chunk's arguments are
-- the module's table, after lua/fs.lua has filled it, and the functions of src/lua/fs.
--
-- What is below a directory is always named relative to that directory, which is open. So nobody
-- can lead a walk or a removal elsewhere by putting a symbolic link into its way.

local orrery, core = ...
local fs, async = orrery.fs, orrery.async
local checkpoint, current, shield = async.checkpoint, async.current, async.shield
local on_complete = orrery.task.on_complete
local about, check_options, check_path = core.about, core.check_options, core.check_path
local error, pcall, setmetatable, sort = error, pcall, setmetatable, table.sort

-------------------------------------------------------------------------------------------- listing

-- Opens a directory, which may not be a symbolic link if `inside`, another directory, is given.
local function open_directory(path, inside)
  local no_follow = inside and core.NOFOLLOW or 0
  return core.open(path, core.RDONLY | core.DIRECTORY | no_follow, 0, inside)
end

-- Merges two sorted lists. Others run meanwhile: a long list takes a while.
local function merge(a, b)
  local merged, i, j = {}, 1, 1
  for k = 1, #a + #b do
    if j > #b or i <= #a and a[i] <= b[j] then
      merged[k], i = a[i], i + 1
    else
      merged[k], j = b[j], j + 1
    end
    if k % 4096 == 0 then
      checkpoint()
    end
  end
  return merged
end

-- Merges lists of about the same length: `runs[i]` holds none, or a list of 2^i pieces.
local function add_run(runs, names)
  local i = 1
  while runs[i] do
    names, runs[i] = merge(runs[i], names), false
    i = i + 1
  end
  runs[i] = names
end

---Returns the names in a directory, sorted by their bytes.
function fs.list(path)
  check_path("fs.list", path)
  local folder <close>, err = open_directory(path)
  if not folder then
    return about(path, "list", err)
  end
  local runs = {}
  repeat
    local names
    names, err = core.list(folder)
    if names then
      sort(names)
      add_run(runs, names)
    elseif err then
      return about(path, "list", err)
    end
  until not names
  local all = {}
  for i = 1, #runs do
    all = runs[i] and merge(runs[i], all) or all
  end
  return all
end

-------------------------------------------------------------------------------------------- walking

-- A walk holds one open directory for each level that it is in.
local Walk = {
  __close = function(walk)
    for i = #walk, 1, -1 do
      walk[i].folder:close()
      walk[i] = nil
    end
  end,
}

local function enter(walk, path, name, inside)
  local folder, err = open_directory(name, inside)
  if folder then
    walk[#walk + 1] = { folder = folder, path = path, names = {}, next = 1 }
  elseif err.code ~= "ENOENT" and err.code ~= "ENOTDIR" and err.code ~= "ELOOP" then
    return about(path, "walk", err)
  end
  return true
end

-- The next name of the innermost directory; nil if there is no more, or nil and an error.
local function next_name(level)
  local name = level.names[level.next]
  if not name then
    local names, err = core.list(level.folder)
    if not names then
      return nil, err
    end
    level.names, level.next = names, 1
    name = names[1]
  end
  level.next = level.next + 1
  return name
end

-- A failure: tells the script's function, or raises.
local function fail(walk, path, err)
  if not walk.on_error then
    error(err, 0)
  end
  walk.on_error(path, err)
end

local function step(walk)
  if walk.pending then
    local pending = walk.pending
    walk.pending = nil
    local ok, err = enter(walk, pending.path, pending.name, pending.folder)
    if not ok then
      fail(walk, pending.path, err)
    end
  end
  while walk[1] do
    local level = walk[#walk]
    local name, err = next_name(level)
    if name then
      local path = fs.join(level.path, name)
      local known, failure = core.stat(name, true, level.folder)
      if known then
        if known.type == "directory" and #walk < walk.depth then
          walk.pending = { path = path, name = name, folder = level.folder }
        end
        return path, known
      elseif failure.code ~= "ENOENT" then
        failure.path = path
        fail(walk, path, failure)
      end -- else it was removed meanwhile
    else
      level.folder:close()
      walk[#walk] = nil
      if err then
        err.path = level.path
        fail(walk, level.path, err)
      end
    end
  end
end

---Iterates over everything below a directory: `for path, stat in fs.walk(path) do`.
function fs.walk(path, options)
  check_path("fs.walk", path)
  options = check_options("fs.walk", options, "depth", "integer", "on_error", "function")
  local walk = setmetatable({ depth = options.depth or 1 << 30, on_error = options.on_error }, Walk)
  local begun
  return function()
    if not begun then
      begun = true
      local folder, err = open_directory(path)
      if not folder then
        err.path, err.operation = path, "walk"
        error(err, 2)
      end
      walk[1] = { folder = folder, path = path, names = {}, next = 1 }
    end
    return step(walk)
  end, nil, nil, walk
end

------------------------------------------------------------------------------------------- removing

local remove_tree

-- Removes what has a name in a directory. What is gone already is fine.
local function remove_entry(name, inside, kind)
  local done, err
  if kind ~= "directory" then
    done, err = core.remove(name, false, inside)
    if done or err.code == "ENOENT" then
      return true
    elseif err.code ~= "EISDIR" and err.code ~= "EPERM" then
      return nil, err
    end
  end
  return remove_tree(name, inside, err)
end

-- Removes what is in a directory, once through. Returns an error, or nil.
local function empty(folder)
  while true do
    local names, types = core.list(folder)
    if not names then
      return types -- the error, at the end none
    end
    for i = 1, #names do
      local done, err = remove_entry(names[i], folder, types[i])
      if not done then
        return err
      end
    end
  end
end

-- Removes a directory with all that is in it. `before` is the error that says it may be one.
function remove_tree(name, inside, before)
  local done, err
  for _ = 1, 100 do -- others may add something meanwhile
    done, err = core.remove(name, true, inside)
    if done or err.code == "ENOENT" then
      return true
    elseif err.code ~= "ENOTEMPTY" and err.code ~= "EEXIST" then
      return nil, err.code == "ENOTDIR" and before or err
    end
    local folder <close>, failure = core.open(name, core.RDONLY | core.DIRECTORY | core.NOFOLLOW, 0, inside)
    if not folder then
      return nil, failure
    end
    failure = empty(folder)
    if failure then
      return nil, failure
    end
  end
  return nil, err
end

---Removes a file, a symbolic link or an empty directory; with `recursive`, a directory with all
---that is in it. Follows no symbolic link.
function fs.remove(path, options)
  check_path("fs.remove", path)
  options = check_options("fs.remove", options, "recursive", "boolean")
  path = core.strip(path)
  local done, err = core.remove(path, false)
  if not done and (err.code == "EISDIR" or err.code == "EPERM") then
    local before = err
    if options.recursive then
      done, err = remove_tree(path, nil, before)
    else
      done, err = core.remove(path, true)
      err = not done and err.code == "ENOTDIR" and before or err
    end
  end
  if not done then
    return about(path, "remove", err)
  end
  return true
end

---Makes a directory that is removed, with all that is in it, when the task that made it ends.
function fs.temp_dir()
  checkpoint()
  local path = core.temp_name()
  local done, err = shield(core.make_dir, path, 448) -- 0700; not to be made unseen
  if not done then
    return nil, err
  end
  local ok, failure = pcall(on_complete, current(), function()
    shield(remove_tree, path)
  end)
  if not ok then -- memory is out
    shield(core.remove, path, true)
    error(failure, 0)
  end
  return path
end
