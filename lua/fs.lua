-- The module `fs`: what is better said in Lua than in C, but for trees of directories, which are in
-- lua/fs_tree.lua. The chunk's arguments are the module's table, the functions of src/lua/fs, and
-- the methods of streams, to which those of files are added.
--
-- A function that takes several steps may be cancelled between any two of them. What it has opened
-- is closed by `<close>` then, and what it has made for itself is removed. An operation that makes
-- such a thing is shielded: one that was given up could make it after it was removed.

local orrery, core, methods = ...
local async = orrery.async
local shield, sleep = async.shield, async.sleep
local error, math_type, next, pcall, select, setmetatable, type =
  error, math.type, next, pcall, select, setmetatable, type
local find, format, gmatch, gsub = string.find, string.format, string.gmatch, string.gsub
local match, sub = string.match, string.sub
local concat, unpack = table.concat, table.unpack

local READ_MOST = 64 << 20 -- bytes that read_file reads, unless it is told another number

local fs = {} -- lua/late.lua has the same functions
orrery.fs = fs

------------------------------------------------------------------------------------------ arguments

-- Errors name the line that called our caller.
local function check_path(what, path)
  if type(path) ~= "string" then
    error(format("%s: expected a path, got %s", what, path == nil and "nothing" or type(path)), 3)
  elseif find(path, "\0", 1, true) then
    error(format("%s: the path has a zero byte", what), 3)
  end
end

local function check_options(what, options, ...)
  if options == nil then
    return {}
  elseif type(options) ~= "table" then
    error(format("%s: expected a table of options, got %s", what, type(options)), 3)
  end
  for name, value in next, options do
    local known
    for i = 1, select("#", ...), 2 do
      local option, kind = select(i, ...)
      known = known or option == name and kind
    end
    if not known then
      local names = {}
      for i = 1, select("#", ...), 2 do
        names[#names + 1] = select(i, ...)
      end
      local shown = type(name) == "string" and name or type(name)
      error(format("%s: unknown option '%s'%s", what, shown, core.advise(shown, unpack(names))), 3)
    end
    local ok = known == "integer" and math_type(value) == "integer" and value >= 0 or type(value) == known
    if not ok then
      error(format("%s: option %s is a %s, expected %s", what, name, type(value),
        known == "integer" and "a whole number from 0 on" or "a " .. known), 3)
    end
  end
  return options
end

---------------------------------------------------------------------------------------------- paths

---Joins parts of a path with "/". A part that is absolute begins the path again.
function fs.join(...)
  local path = ""
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    check_path("fs.join", part)
    if sub(part, 1, 1) == "/" or path == "" then
      path = part
    elseif part ~= "" then
      path = sub(path, -1) == "/" and path .. part or path .. "/" .. part
    end
  end
  return path
end

-- Without slashes at the end.
local function strip(path)
  local stripped = match(path, "^(.-)/+$")
  return stripped == "" and "/" or stripped or path
end

local function dirname(path)
  local folder = match(strip(path), "^(.*)/[^/]*$")
  return folder == nil and "." or folder == "" and "/" or strip(folder)
end

---Returns the last part of a path.
function fs.basename(path)
  check_path("fs.basename", path)
  path = strip(path)
  return path == "/" and "/" or match(path, "[^/]*$")
end

---Returns a path without its last part; "." if there is no other.
function fs.dirname(path)
  check_path("fs.dirname", path)
  return dirname(path)
end

---Returns the end of a path's last part from its last dot on, such as ".gz"; "" if it has none.
function fs.extension(path)
  check_path("fs.extension", path)
  return match(strip(path), "[^/](%.[^./]*)$") or ""
end

---Returns a path that begins at the root. Does not look at the disk: ".." stays.
function fs.absolute(path)
  check_path("fs.absolute", path)
  if sub(path, 1, 1) ~= "/" then
    local folder, err = core.working_directory()
    if not folder then
      return nil, err
    end
    path = folder .. "/" .. path
  end
  local parts = {}
  for part in gmatch(path, "[^/]+") do
    if part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return "/" .. concat(parts, "/")
end

---------------------------------------------------------------------------------------------- files

local MODES = {
  ["r"] = core.RDONLY,
  ["r+"] = core.RDWR,
  ["w"] = core.WRONLY | core.CREAT | core.TRUNC,
  ["w+"] = core.RDWR | core.CREAT | core.TRUNC,
  ["a"] = core.WRONLY | core.CREAT | core.APPEND,
  ["a+"] = core.RDWR | core.CREAT | core.APPEND,
  ["x"] = core.WRONLY | core.CREAT | core.EXCL,
  ["x+"] = core.RDWR | core.CREAT | core.EXCL,
}

---Opens a file. Returns a stream with the methods of files, or nil and an error.
function fs.open(path, mode, options)
  check_path("fs.open", path)
  options = check_options("fs.open", options, "mode", "integer")
  local flags = MODES[mode == nil and "r" or type(mode) == "string" and gsub(mode, "b", "") or mode]
  if not flags then
    error(format("fs.open: expected a mode such as \"r\", \"w\", \"a\", \"r+\" or \"x\", got %s",
      type(mode) == "string" and format("%q", mode) or type(mode)), 2)
  end
  local file, err = core.open(path, flags, options.mode or 438, nil) -- 0666, less the umask
  if not file then
    return nil, err
  end
  if flags & core.APPEND ~= 0 then
    local ok, known = pcall(core.file_stat, file)
    if not ok then -- the task was cancelled
      file:close()
      error(known, 0)
    end
    core.go(file, known and known.size or 0)
  end
  return file
end

-- Writes everything and waits for it: true, or nil and an error.
local function write_all(file, data, sync)
  local done, err = file:write(data)
  if done and sync then
    done, err = core.sync(file)
  end
  return done and true, err
end

local function check_data(what, data)
  if type(data) ~= "string" and type(data) ~= "number" and type(data) ~= "table" then
    error(format("%s: expected a string or a list of strings, got %s", what, type(data)), 3)
  end
end

-- An error of a step gets the path that the script has named.
local function about(path, operation, err)
  err.path, err.operation = path, operation
  return nil, err
end

---Reads a file whole: at most `max` bytes, or nil and an error with the code "EMSGSIZE".
function fs.read_file(path, max)
  check_path("fs.read_file", path)
  if max ~= nil and (math_type(max) ~= "integer" or max < 1) then
    error("fs.read_file: expected a number of bytes, at least 1", 2)
  end
  local file <close>, err = core.open(path, core.RDONLY, 0, nil)
  if not file then
    return about(path, "read_file", err)
  end
  local data
  data, err = file:read_all(max or READ_MOST)
  if not data then
    return about(path, "read_file", err)
  end
  return data
end

-- A file that is removed at the end of a block, unless it has got its name.
local Unnamed = {
  __close = function(self)
    if self.path then
      shield(core.remove, self.path, false)
    end
  end,
}

local function write_beside(path, data, options)
  local known = not options.mode and core.stat(path, true)
  local mode = options.mode or known and known.type == "file" and known.mode or 438
  local name = format("%s.%s.tmp", path, core.random_name())
  local unnamed <close> = setmetatable({ path = name }, Unnamed)
  local file <close>, err = shield(core.open, name, core.WRONLY | core.CREAT | core.EXCL, mode, nil)
  if not file then
    unnamed.path = nil
    return nil, err
  end
  local done
  done, err = write_all(file, data, options.sync ~= false)
  file:close()
  if done then
    done, err = core.rename(name, path)
  end
  if not done then
    return nil, err
  end
  unnamed.path = nil
  return true
end

-- Brings the names of a folder to the disk.
local function sync_folder(path)
  local folder <close>, err = core.open(path, core.RDONLY | core.DIRECTORY, 0, nil)
  if not folder then
    return nil, err
  end
  return core.sync(folder)
end

---Writes a file whole. Returns true, or nil and an error.
function fs.write_file(path, data, options)
  check_path("fs.write_file", path)
  check_data("fs.write_file", data)
  options = check_options("fs.write_file", options, "atomic", "boolean", "sync", "boolean", "mode", "integer")
  local done, err
  if options.atomic then
    done, err = write_beside(path, data, options)
    if done and options.sync ~= false then
      done, err = sync_folder(dirname(path))
    end
  else
    local file <close>, failure = core.open(path, core.WRONLY | core.CREAT | core.TRUNC, options.mode or 438, nil)
    if file then
      done, err = write_all(file, data, options.sync)
    else
      err = failure
    end
  end
  if not done then
    return about(path, "write_file", err)
  end
  return true
end

---Writes at the end of a file, which is made if there is none.
function fs.append_file(path, data, options)
  check_path("fs.append_file", path)
  check_data("fs.append_file", data)
  options = check_options("fs.append_file", options, "sync", "boolean", "mode", "integer")
  local file <close>, err = core.open(path, core.WRONLY | core.CREAT | core.APPEND, options.mode or 438, nil)
  local done
  if file then
    done, err = write_all(file, data, options.sync)
  end
  if not done then
    return about(path, "append_file", err)
  end
  return true
end

-- Copies all bytes; `to` is empty.
local function copy_bytes(from, to)
  local offset = 0
  repeat
    local count, err = core.copy(from, to, offset)
    if not count then
      return nil, err
    end
    offset = offset + count
  until count == 0
  return offset
end

local function copy(from, to, options)
  local source <close>, err = core.open(from, core.RDONLY, 0, nil)
  local known, target_known, done
  if source then
    known, err = core.file_stat(source)
  end
  if not known then
    return nil, err
  end
  local flags = core.WRONLY | core.CREAT | (options.overwrite == false and core.EXCL or 0)
  local target <close>, failure = core.open(to, flags, known.mode, nil)
  if not target then
    return nil, failure
  end
  target_known, err = core.file_stat(target)
  if not target_known then
    return nil, err
  elseif target_known.inode == known.inode and target_known.device == known.device then
    return known.size -- the same file
  end
  done, err = core.truncate(target, 0)
  if done then
    done, err = copy_bytes(source, target)
  end
  if done and options.sync then
    local synced
    synced, err = core.sync(target)
    done = synced and done
  end
  return done, err
end

---Copies a file. Returns how many bytes, or nil and an error. Where the file system can, both share
---their blocks.
function fs.copy(from, to, options)
  check_path("fs.copy", from)
  check_path("fs.copy", to)
  options = check_options("fs.copy", options, "overwrite", "boolean", "sync", "boolean")
  local bytes, err = copy(from, to, options)
  if not bytes then
    err.operation = "copy"
    return nil, err
  end
  return bytes
end

---------------------------------------------------------------------------------------------- names

---Returns what is known about a file, as a table; follows symbolic links.
function fs.stat(path)
  check_path("fs.stat", path)
  return core.stat(path, false)
end

---Returns what is known about a file or a symbolic link itself.
function fs.lstat(path)
  check_path("fs.lstat", path)
  return core.stat(path, true)
end

---Returns whether a path leads to something; nil and an error if that cannot be told.
function fs.exists(path)
  check_path("fs.exists", path)
  local known, err = core.stat(path, false)
  if known then
    return true
  elseif err.code == "ENOENT" or err.code == "ENOTDIR" then
    return false
  end
  return nil, err
end

local function make_dir(path, mode, parents)
  local done, err = core.make_dir(path, mode)
  if done or not parents then
    return done, err
  elseif err.code == "ENOENT" then
    local folder = dirname(path)
    if folder == path or folder == "." then
      return nil, err
    end
    done, err = make_dir(folder, 511, true)
    if done then
      done, err = core.make_dir(path, mode)
    end
  end
  if not done and err.code == "EEXIST" then
    local known = core.stat(path, false)
    done = known and known.type == "directory"
  end
  if not done then
    return nil, err
  end
  return true
end

---Makes a directory. Returns true, or nil and an error.
function fs.make_dir(path, options)
  check_path("fs.make_dir", path)
  options = check_options("fs.make_dir", options, "parents", "boolean", "mode", "integer")
  return make_dir(strip(path), options.mode or 511, options.parents)
end

---Gives a file another name, in the place of what has that name.
function fs.rename(from, to)
  check_path("fs.rename", from)
  check_path("fs.rename", to)
  return core.rename(from, to)
end

---Gives a file one more name.
function fs.link(target, link)
  check_path("fs.link", target)
  check_path("fs.link", link)
  return core.link(target, link)
end

---Makes a symbolic link.
function fs.symlink(target, link)
  check_path("fs.symlink", target)
  check_path("fs.symlink", link)
  return core.symlink(target, link)
end

---Returns the text of a symbolic link.
function fs.read_link(path)
  check_path("fs.read_link", path)
  return core.read_link(path)
end

------------------------------------------------------------------------------------ temporary files

local function temp_name()
  return fs.join(core.temp_folder(), "orrery-" .. core.random_name())
end

---Opens a file without a name, which is gone when it is closed.
function fs.temp_file()
  local file, err = core.open(core.temp_folder(), core.RDWR | core.TMPFILE, 384, nil) -- 0600
  if file then
    return file
  elseif err.code ~= "EOPNOTSUPP" and err.code ~= "EISDIR" and err.code ~= "EINVAL" then
    return nil, err
  end
  local name = temp_name()
  file, err = shield(core.open, name, core.RDWR | core.CREAT | core.EXCL, 384, nil)
  if not file then
    return nil, err
  end
  shield(core.remove, name, false)
  return file
end

----------------------------------------------------------------------------------- methods of files

methods.pread, methods.pwrite, methods.truncate = core.pread, core.pwrite, core.truncate
methods.sync, methods.stat = core.sync, core.file_stat

---Returns how many bytes the file has.
function methods.size(file)
  local known, err = core.file_stat(file)
  if not known then
    return nil, err
  end
  return known.size
end

---Returns the position, and changes it, with the arguments of Lua's own seek.
function methods.seek(file, whence, offset)
  if math_type(whence) == "integer" and offset == nil then
    whence, offset = "cur", whence
  end
  whence, offset = whence or "cur", offset or 0
  if whence ~= "set" and whence ~= "cur" and whence ~= "end" then
    error("stream:seek: expected \"set\", \"cur\" or \"end\"", 2)
  elseif math_type(offset) ~= "integer" then
    error(format("stream:seek: expected a whole number, got %s", type(offset)), 2)
  end
  local base, err = 0, nil
  if whence == "cur" then
    base, err = core.tell(file)
  elseif whence == "end" then
    base, err = methods.size(file)
  end
  if not base then
    return nil, err
  elseif base + offset < 0 then
    error("stream:seek: the position is before the beginning of the file", 2)
  end
  return core.go(file, base + offset)
end

---Locks the whole file, for this open file; other processes that lock it wait, too.
function methods.lock(file, options)
  options = check_options("stream:lock", options, "shared", "boolean", "wait", "boolean")
  local how, pause = options.shared and "shared" or "exclusive", 1
  while true do
    local done, err = core.try_lock(file, how)
    if done then
      return done
    elseif err.code ~= "EAGAIN" or options.wait == false then
      return nil, err
    end
    sleep(pause)
    pause = pause < 100 and 2 * pause or 100
  end
end

---Gives the lock back. Closing the file does so, too.
function methods.unlock(file)
  return core.try_lock(file, "none")
end

-- For lua/fs_tree.lua.
core.about, core.check_options, core.check_path, core.strip, core.temp_name = about, check_options, check_path, strip,
  temp_name
