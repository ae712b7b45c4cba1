-- The module `fs`: files, names, directories, and what happens to them meanwhile.

local check = require "check"
local orrery = require "orrery"
local async, fs = orrery.async, orrery.fs
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy

local function fails(code, ok, err, ...)
  equal(ok, nil, "the result")
  equal(type(err), "table", "the error")
  equal(err.code, code)
  truthy(#err.message > 0 and #err.operation > 0, "the error says what happened")
  return err, ...
end

-- A test that gets a directory of its own.
local function in_folder(name, fn)
  test(name, function()
    fn(assert(fs.temp_dir()))
  end)
end

---------------------------------------------------------------------------------------------- paths

test("paths are joined, and taken apart", function()
  equal(fs.join("a", "b", "c"), "a/b/c")
  equal(fs.join("a/", "b"), "a/b")
  equal(fs.join("a", "/b"), "/b")
  equal(fs.join("", "b"), "b")
  equal(fs.join("a", ""), "a")
  equal(fs.join("/", "b"), "/b")
  equal(fs.join(), "")
  for path, parts in pairs {
    ["/a/b.tar.gz"] = { "/a", "b.tar.gz", ".gz" },
    ["a"] = { ".", "a", "" },
    ["/"] = { "/", "/", "" },
    ["/a"] = { "/", "a", "" },
    ["a/b/"] = { "a", "b", "" },
    ["a//b"] = { "a", "b", "" },
    [".profile"] = { ".", ".profile", "" },
    ["a.d/x"] = { "a.d", "x", "" },
    [""] = { ".", "", "" },
  } do
    equal(fs.dirname(path), parts[1], "dirname " .. path)
    equal(fs.basename(path), parts[2], "basename " .. path)
    equal(fs.extension(path), parts[3], "extension " .. path)
  end
  equal(fs.absolute("/a//./b/"), "/a/b")
  truthy(fs.absolute("x"):match "^/.*/x$")
end)

---------------------------------------------------------------------------------------------- files

in_folder("what is written is read", function(dir)
  local path = fs.join(dir, "f")
  equal(fs.write_file(path, "one\n"), true)
  equal(fs.append_file(path, { "two", "\n" }), true)
  equal(fs.read_file(path), "one\ntwo\n")
  equal(fs.write_file(path, ""), true)
  equal(fs.read_file(path), "")
  equal(fs.append_file(fs.join(dir, "new"), 42), true)
  equal(fs.read_file(fs.join(dir, "new")), "42")
end)

in_folder("a large file is written and read whole", function(dir)
  local path, text = fs.join(dir, "f"), string.rep("0123456789abcdef", 300000)
  assert(fs.write_file(path, text))
  truthy(fs.read_file(path) == text)
  assert(fs.write_file(path, { text, "end", text }, { atomic = true, sync = false }))
  truthy(fs.read_file(path) == text .. "end" .. text)
end)

in_folder("read_file has a limit", function(dir)
  local path = fs.join(dir, "f")
  assert(fs.write_file(path, "12345"))
  equal(fs.read_file(path, 5), "12345")
  equal(fails("EMSGSIZE", fs.read_file(path, 4)).path, path)
end)

in_folder("an atomic write replaces the file, keeps its mode and leaves nothing beside it", function(dir)
  local path = fs.join(dir, "f")
  assert(fs.write_file(path, "old", { mode = 384 }))
  local before = fs.stat(path)
  assert(fs.write_file(path, "new", { atomic = true }))
  local after = fs.stat(path)
  equal(fs.read_file(path), "new")
  truthy(before.inode ~= after.inode, "another file")
  equal(after.mode, 384)
  equal(table.concat(fs.list(dir), " "), "f")
  equal(fails("ENOENT", fs.write_file(fs.join(dir, "no/f"), "x", { atomic = true })).operation, "write_file")
  fails("EISDIR", fs.write_file(dir, "x", { atomic = true }))
  equal(table.concat(fs.list(dir), " "), "f")
end)

in_folder("a file is a stream with a position", function(dir)
  local path = fs.join(dir, "f")
  local file <close> = assert(fs.open(path, "w+"))
  equal(file:write("one\n", "two\n", 3), file)
  equal(file:seek(), 9)
  equal(file:seek("set"), 0)
  equal(file:read_line(), "one")
  equal(file:seek("cur"), 4, "what was read ahead does not count")
  equal(file:read_exactly(3), "two")
  equal(file:seek(-3), 4)
  equal(file:seek("end", -1), 8)
  equal(file:read(), "3")
  equal(file:read(), nil)
  equal(file:seek("set", 4), 4)
  equal(file:write "TWO", file)
  equal(fs.read_file(path), "one\nTWO\n3")
  local lines = {}
  file:seek("set")
  for line in file:lines() do lines[#lines + 1] = line end
  equal(table.concat(lines, ","), "one,TWO,3")
  equal(tostring(file), "stream (file " .. path .. ")")
  raises("before the beginning", file.seek, file, "set", -1)
  raises("expected \"set\"", file.seek, file, "start")
end)

in_folder("pread and pwrite leave the position alone", function(dir)
  local file <close> = assert(fs.open(fs.join(dir, "f"), "w+"))
  equal(file:pwrite("hello", 3), file)
  equal(file:size(), 8)
  equal(file:pread(100, 3), "hello")
  equal(file:pread(2, 4), "el")
  equal(file:pread(1, 8), nil)
  equal(file:seek(), 0)
  equal(file:truncate(4), file)
  equal(file:stat().size, 4)
  equal(file:sync(), file)
  raises("number of bytes", file.pread, file, 0, 0)
  raises("a position", file.pread, file, 1, -1)
  raises("a position", file.pwrite, file, "x", "y")
end)

in_folder("modes are those of Lua, and x makes a new file", function(dir)
  local path = fs.join(dir, "f")
  fails("ENOENT", fs.open(path))
  fails("ENOENT", fs.open(path, "r+"))
  assert(fs.open(path, "x")):close()
  fails("EEXIST", fs.open(path, "x"))
  local file = assert(fs.open(path, "ab"))
  equal(file:write "a", file)
  local err = fails("EBADF", file:read())
  equal(err.path, path)
  fails("EBADF", file:pread(1, 0))
  file:close()
  fails("ECANCELED", file:write "x")
  fails("ECANCELED", file:size())
  fails("ECANCELED", file:seek())
  raises("a mode such as", fs.open, path, "q")
  raises("expected a path, got nothing", fs.open)
  raises("zero byte", fs.open, "a\0b")
  raises("unknown option 'mod'", fs.open, path, "w", { mod = 1 })
  raises("whole number", fs.open, path, "w", { mode = "x" })
  assert(fs.open(fs.join(dir, "m"), "w", { mode = 256 })):close()
  equal(fs.stat(fs.join(dir, "m")).mode, 256)
end)

in_folder("an error says what was tried, where, and why", function(dir)
  local path = fs.join(dir, "no", "f")
  local err = fails("ENOENT", fs.open(path))
  equal(err.operation, "open")
  equal(err.path, path)
  equal(tostring(err), "open " .. path .. ": No such file or directory (ENOENT)")
  equal(tostring(fails("ENOENT", fs.read_file(path))), "read_file " .. path .. ": No such file or directory (ENOENT)")
end)

in_folder("a lock waits for its turn, or says that it is taken", function(dir)
  local path = fs.join(dir, "f")
  local one, two = assert(fs.open(path, "w+")), assert(fs.open(path, "r+"))
  equal(one:lock(), one)
  fails("EAGAIN", two:lock { wait = false })
  local waiting = async.run(function() return two:lock() end)
  async.sleep(1000)
  equal(waiting:status(), "awaiting")
  equal(one:unlock(), one)
  equal(waiting:wait(), two)
  fails("EAGAIN", one:lock { shared = true, wait = false })
  equal(two:lock { shared = true }, two)
  equal(one:lock { shared = true }, one)
  one:close()
  two:close()
end)

in_folder("a file that shrinks while it is read ends there", function(dir)
  local path = fs.join(dir, "f")
  assert(fs.write_file(path, string.rep("x", 1 << 20)))
  local file <close> = assert(fs.open(path))
  equal(#file:read_exactly(1000), 1000)
  local other <close> = assert(fs.open(path, "r+"))
  assert(other:truncate(10))
  local rest = file:read_all()
  truthy(#rest < 1 << 20)
  equal(file:read(), nil)
end)

in_folder("after the end of a file, seek looks again", function(dir)
  local path = fs.join(dir, "f")
  assert(fs.write_file(path, "one\n"))
  local file <close> = assert(fs.open(path))
  equal(file:read_line(), "one")
  equal(file:read_line(), nil)
  assert(fs.append_file(path, "two\n"))
  equal(file:seek("cur"), 4)
  file:seek("set", 4)
  equal(file:read_line(), "two")
end)

test("devices and fifos are streams that wait", function()
  local null <close> = assert(fs.open("/dev/null", "r+"))
  equal(null:write "x", null)
  equal(null:read(), nil)
  fails("ESPIPE", null:size())
  fails("ESPIPE", null:seek())
  fails("ESPIPE", null:pread(1, 0))
  local zero <close> = assert(fs.open("/dev/zero"))
  equal(#zero:read_exactly(100000), 100000)
end)

in_folder("what the kernel writes into /proc can be read and copied", function(dir)
  truthy(fs.read_file("/proc/self/stat"):match "^%d+ ")
  truthy(fs.copy("/proc/self/stat", fs.join(dir, "f")) > 10)
end)

test("a full disk is an error", function()
  local full = fs.open("/dev/full", "w")
  if full then
    fails("ENOSPC", full:write "x")
    full:close()
  end
end)

---------------------------------------------------------------------------------------------- names

in_folder("stat tells what is known, and lstat looks at the link", function(dir)
  local path, link = fs.join(dir, "f"), fs.join(dir, "l")
  assert(fs.write_file(path, "12345", { mode = 384 }))
  assert(fs.symlink("f", link))
  local known = fs.stat(link)
  equal(known.type, "file")
  equal(known.size, 5)
  equal(known.mode, 384)
  equal(known.links, 1)
  truthy(known.modified > 1e12 and known.uid >= 0 and known.gid >= 0 and known.inode > 0)
  equal(fs.lstat(link).type, "symlink")
  equal(fs.read_link(link), "f")
  equal(fs.stat(dir).type, "directory")
  assert(fs.link(path, fs.join(dir, "h")))
  equal(fs.stat(path).links, 2)
  fails("EEXIST", fs.link(path, link))
  fails("EINVAL", fs.read_link(path))
  equal(fs.exists(link), true)
  assert(fs.remove(path))
  equal(fs.exists(link), false, "a link that leads nowhere")
  equal(fs.exists(fs.join(dir, "h", "x")), false)
  assert(fs.symlink("self", fs.join(dir, "self")))
  fails("ELOOP", fs.exists(fs.join(dir, "self")))
end)

in_folder("files are copied and renamed", function(dir)
  local a, b = fs.join(dir, "a"), fs.join(dir, "b")
  assert(fs.write_file(a, string.rep("text", 100000), { mode = 448 }))
  equal(fs.copy(a, b), 400000)
  equal(fs.stat(b).mode, 448)
  truthy(fs.read_file(a) == fs.read_file(b))
  fails("EEXIST", fs.copy(a, b, { overwrite = false }))
  equal(fs.copy(a, a), 400000, "onto itself")
  equal(#fs.read_file(a), 400000)
  assert(fs.write_file(a, ""))
  equal(fs.copy(a, b), 0)
  equal(fs.read_file(b), "")
  equal(fs.rename(a, fs.join(dir, "c")), true)
  equal(table.concat(fs.list(dir), " "), "b c")
  fails("ENOENT", fs.rename(a, b))
end)

in_folder("names are bytes, and paths may be long", function(dir)
  local odd = "\xff\xfe \n\t'\""
  assert(fs.write_file(fs.join(dir, odd), "x"))
  equal(fs.list(dir)[1], odd)
  for path in fs.walk(dir) do equal(path, fs.join(dir, odd)) end
  equal(fails("ENOENT", fs.stat(fs.join(dir, odd .. "2"))).path, fs.join(dir, odd .. "2"))
  local deep = dir
  while #deep < 4095 - 256 do
    deep = fs.join(deep, string.rep("d", 250))
  end
  assert(fs.make_dir(deep, { parents = true }))
  local path = fs.join(deep, string.rep("f", 4095 - #deep - 1))
  equal(#path, 4095)
  assert(fs.write_file(path, "far"))
  equal(fs.read_file(path), "far")
  fails("ENAMETOOLONG", fs.stat(path .. "x"))
  fails("ENAMETOOLONG", fs.open(string.rep("x/", 5000)))
  assert(fs.remove(fs.join(dir, string.rep("d", 250)), { recursive = true }))
end)

---------------------------------------------------------------------------------------- directories

in_folder("directories are made, with their parents", function(dir)
  local deep = fs.join(dir, "a/b/c/")
  fails("ENOENT", fs.make_dir(deep))
  equal(fs.make_dir(deep, { parents = true, mode = 448 }), true)
  equal(fs.make_dir(deep, { parents = true }), true)
  fails("EEXIST", fs.make_dir(deep))
  equal(fs.stat(deep).mode, 448)
  assert(fs.write_file(fs.join(dir, "f"), ""))
  fails("ENOTDIR", fs.make_dir(fs.join(dir, "f/g"), { parents = true }))
  fails("EEXIST", fs.make_dir(fs.join(dir, "f"), { parents = true }))
end)

in_folder("a directory of ten thousand names is listed in order, walked and removed", function(dir)
  local many = fs.join(dir, "many")
  assert(fs.make_dir(many))
  async.scope(function()
    for first = 0, 7 do
      async.run(function()
        for i = first, 9999, 8 do
          assert(fs.symlink("x", fs.join(many, "n" .. i)))
        end
      end)
    end
  end)
  local names = assert(fs.list(many))
  equal(#names, 10000)
  for i = 2, #names do
    if names[i - 1] >= names[i] then error "not in order" end
  end
  local seen = 0
  for _, stat in fs.walk(many) do
    seen = seen + 1
    equal(stat.type, "symlink")
  end
  equal(seen, 10000)
  equal(fs.remove(many, { recursive = true }), true)
  equal(fs.exists(many), false)
end)

in_folder("walk goes down, not through links, and no deeper than it is told", function(dir)
  assert(fs.make_dir(fs.join(dir, "a/b"), { parents = true }))
  assert(fs.write_file(fs.join(dir, "a/b/f"), "123"))
  assert(fs.symlink("..", fs.join(dir, "a/b/up")))
  local function walked(options)
    local seen = {}
    for path, stat in fs.walk(dir, options) do
      seen[#seen + 1] = path:sub(#dir + 2) .. "=" .. stat.type
    end
    table.sort(seen)
    return table.concat(seen, " ")
  end
  equal(walked(), "a/b/f=file a/b/up=symlink a/b=directory a=directory")
  equal(walked { depth = 1 }, "a=directory")
  local err = raises(nil, fs.walk(fs.join(dir, "no")))
  equal(err.code, "ENOENT")
  for path in fs.walk(dir) do
    assert(fs.remove(path, { recursive = true })) -- what has gone is passed over
  end
  equal(walked(), "")
end)

in_folder("remove follows no link", function(dir)
  local kept = fs.join(dir, "kept")
  assert(fs.make_dir(kept))
  assert(fs.write_file(fs.join(kept, "f"), ""))
  assert(fs.make_dir(fs.join(dir, "d/e"), { parents = true }))
  assert(fs.symlink(kept, fs.join(dir, "d/e/link")))
  assert(fs.symlink(kept, fs.join(dir, "link")))
  fails("ENOTEMPTY", fs.remove(fs.join(dir, "d")))
  equal(fs.remove(fs.join(dir, "d"), { recursive = true }), true)
  equal(fs.remove(fs.join(dir, "link/"), { recursive = true }), true)
  equal(table.concat(fs.list(dir), " "), "kept")
  equal(fs.exists(fs.join(kept, "f")), true)
  fails("ENOENT", fs.remove(fs.join(dir, "d"), { recursive = true }))
  fails("ENOENT", fs.remove(fs.join(dir, "d")))
end)

------------------------------------------------------------------------------------ temporary files

test("a temporary file has no name", function()
  local file <close> = assert(fs.temp_file())
  equal(file:write "text", file)
  equal(file:pread(10, 0), "text")
  equal(file:stat().links, 0)
end)

test("a temporary directory goes with the task that made it", function()
  local path
  async.run(function()
    path = assert(fs.temp_dir())
    equal(fs.stat(path).mode, 448)
    assert(fs.make_dir(fs.join(path, "a/b"), { parents = true }))
    assert(fs.write_file(fs.join(path, "a/b/f"), ""))
  end):wait()
  while fs.exists(path) do
    async.checkpoint()
  end
end)
