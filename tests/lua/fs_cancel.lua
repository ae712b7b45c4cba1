-- Cancellation of everything in `fs` that waits: each operation, cancelled before it begins, some
-- turns later, and afterwards; by the task's close and with the task that owns it. No descriptor
-- may be lost, and what is left must be whole.

local check = require "check"
local orrery = require "orrery"
local async, fs = orrery.async, orrery.fs
local test, equal, truthy = check.test, check.equal, check.truthy

-- Counts with a descriptor of its own. An operation that was given up goes on unseen, and files are
-- closed by other threads.
local function descriptors()
  return #assert(fs.list("/proc/self/fd"))
end

local function await_descriptors(expected)
  while descriptors() > expected do
    async.checkpoint()
  end
end

-- Each operation gets a directory with the file "f" (10 bytes) and the directory "d" with a file,
-- and returns the wait, and a check that all is whole afterwards, if there is something to check.
local operations = {}

function operations.open(dir)
  return function() assert(fs.open(dir .. "/f")):close() end
end

function operations.read_file(dir)
  return function() return fs.read_file(dir .. "/f") end
end

function operations.write_file(dir)
  return function() return fs.write_file(dir .. "/f", "new") end
end

operations["write_file, atomic"] = function(dir)
  return function() return fs.write_file(dir .. "/f", "new", { atomic = true }) end, function(completed)
    local text = fs.read_file(dir .. "/f")
    truthy(text == "new" or not completed and text == "0123456789", "all or nothing: " .. text)
    for _, name in ipairs(fs.list(dir)) do
      equal(name:match "tmp$", nil, "what is left beside the file")
    end
  end
end

function operations.append_file(dir)
  return function() return fs.append_file(dir .. "/f", "new") end, function()
    local text = fs.read_file(dir .. "/f")
    truthy(text == "0123456789" or text == "0123456789new", text)
  end
end

function operations.stat(dir) return function() return fs.stat(dir .. "/f") end end
function operations.lstat(dir) return function() return fs.lstat(dir .. "/f") end end
function operations.exists(dir) return function() return fs.exists(dir .. "/f") end end
function operations.list(dir) return function() return fs.list(dir) end end
function operations.walk(dir) return function() for _ in fs.walk(dir) do async.checkpoint() end end end
function operations.make_dir(dir) return function() return fs.make_dir(dir .. "/a/b/c", { parents = true }) end end
function operations.remove(dir) return function() return fs.remove(dir .. "/f") end end

operations["remove, recursive"] = function(dir)
  return function() return fs.remove(dir .. "/d", { recursive = true }) end, function(completed)
    if completed then equal(fs.exists(dir .. "/d"), false) end
    equal(fs.exists(dir .. "/f"), true)
  end
end

function operations.rename(dir)
  return function() return fs.rename(dir .. "/f", dir .. "/g") end, function()
    truthy(fs.exists(dir .. "/f") ~= fs.exists(dir .. "/g"), "it has one name")
  end
end

function operations.copy(dir) return function() return fs.copy(dir .. "/f", dir .. "/g") end end
function operations.link(dir) return function() return fs.link(dir .. "/f", dir .. "/g") end end
function operations.symlink(dir) return function() return fs.symlink("f", dir .. "/s") end end
function operations.read_link() return function() return fs.read_link("/proc/self/exe") end end
function operations.temp_file() return function() assert(fs.temp_file()):close() end end
function operations.temp_dir() return function() return fs.temp_dir() end end

-- A method of an open file.
local function method(wait, whole)
  return function(dir)
    local file = assert(fs.open(dir .. "/f", "r+"))
    return function() return wait(file) end, function(completed)
      if whole then whole(file, completed) end
      file:close()
    end
  end
end

local function consumes_nothing(file, completed)
  if not completed then
    equal(file:read_exactly(10), "0123456789", "a cancelled read consumes nothing")
  end
end

operations["stream:read"] = method(function(file) return file:read() end, consumes_nothing)
operations["stream:read_exactly"] = method(function(file) return file:read_exactly(10) end, consumes_nothing)
operations["stream:read_line"] = method(function(file) return file:read_line() end, consumes_nothing)
operations["stream:read_all"] = method(function(file) return file:read_all() end, consumes_nothing)
operations["a loop"] = method(function(file) for chunk in file do return chunk end end, consumes_nothing)

local writing = string.rep("x", 1 << 20)
operations["stream:write"] = method(function(file) return assert(file:write(writing)) end, function(file, completed)
  local ok, err = file:write "y"
  if completed then
    equal(ok, file)
  elseif not ok then
    equal(err.code, "ECONNABORTED")
    truthy(err.written > 0 and err.written <= #writing)
  end
end)

operations["stream:pread"] = method(function(file) return file:pread(10, 0) end, consumes_nothing)
operations["stream:pwrite"] = method(function(file) return file:pwrite("abc", 0) end)
operations["stream:seek"] = method(function(file) return file:seek("end") end)
operations["stream:size"] = method(function(file) return file:size() end, consumes_nothing)
operations["stream:stat"] = method(function(file) return file:stat() end)
operations["stream:truncate"] = method(function(file) return file:truncate(5) end, function(file)
  local size = file:size()
  truthy(size == 5 or size == 10)
end)
operations["stream:sync"] = method(function(file) return file:sync() end)

operations["stream:lock"] = function(dir)
  local one, two = assert(fs.open(dir .. "/f", "r+")), assert(fs.open(dir .. "/f", "r+"))
  return function() return two:lock() end, function()
    two:close()
    equal(one:lock(), one, "a lock ends with its file")
    one:close()
  end
end

operations["stream:lock, which waits"] = function(dir)
  local one, two = assert(fs.open(dir .. "/f", "r+")), assert(fs.open(dir .. "/f", "r+"))
  assert(one:lock())
  local unlocking = async.run(function() async.sleep(5) one:unlock() end)
  return function() return two:lock() end, function()
    unlocking:wait()
    two:close()
    equal(one:lock(), one)
    one:close()
  end
end

local names = {}
for name in pairs(operations) do names[#names + 1] = name end
table.sort(names)

local function prepare()
  local dir = assert(fs.temp_dir())
  assert(fs.write_file(dir .. "/f", "0123456789"))
  assert(fs.make_dir(dir .. "/d/e", { parents = true }))
  assert(fs.write_file(dir .. "/d/e/f", ""))
  return dir
end

-- Runs an operation in a task below another and ends it after so many turns; math.huge: when it is
-- complete. Returns whether it completed.
local function run(wait, turns, end_parent)
  local completed, task = false, nil
  local parent = async.run("owner", function()
    async.scope(function()
      task = async.run("operation", function()
        if turns < 0 then
          async.current():close()
        end
        wait()
        completed = true
      end)
    end)
  end)
  if turns == math.huge then
    task:pwait()
    turns = 0
  end
  for _ = 1, turns do
    async.checkpoint()
  end
  local ended = end_parent and parent or task
  ended:close()
  parent:pwait()
  return completed
end

for _, name in ipairs(names) do
  test(name .. " is cancelled at any moment", function()
    for _, end_parent in ipairs { false, true } do
      for _, turns in ipairs { -1, 0, 1, 2, 3, 5, 8, 20, 100, math.huge } do
        async.run(function()
          local dir = prepare()
          local before = descriptors()
          local wait, whole = operations[name](dir)
          local open = descriptors()
          local completed = run(wait, turns, end_parent)
          if turns == math.huge then equal(completed, true, "the operation is complete") end
          if turns == -1 then equal(completed, false, "the operation was cancelled before it began") end
          await_descriptors(open)
          if whole then whole(completed) end
          await_descriptors(before)
        end):wait()
      end
    end
  end)
end

test("a time limit ends an operation, and is no error of a file", function()
  local dir = prepare()
  local one, two = assert(fs.open(dir .. "/f", "r+")), assert(fs.open(dir .. "/f", "r+"))
  assert(one:lock())
  equal(select(2, pcall(async.with_timeout, 50, two.lock, two)), "timeout")
  one:close()
  two:close()
end)
