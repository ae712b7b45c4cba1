-- untrusted: there is no io
-- Files, in a folder that the second argument names.

local folder = arg[2]
local name = folder .. "/file"

-- Removes the folder from messages: it differs in each run.
local function plain(...)
  local r = table.pack(...)
  for i = 1, r.n do if type(r[i]) == "string" then r[i] = r[i]:gsub(folder:gsub("%p", "%%%0"), "DIR") end end
  return table.unpack(r, 1, r.n)
end

local function put(text) local f <close> = assert(io.open(name, "w")) f:write(text) end
local function get() local f <close> = assert(io.open(name, "rb")) return f:read "a" end

check("write and read", function()
  put "line one\nline two\n\nlast"
  local r = {}
  for line in io.lines(name) do r[#r + 1] = line end
  return r, get()
end, 30)

check("read formats", function()
  put "12 0x1F -3.5e2 word\nsecond\n\nthird\nrest of it"
  local f <close> = io.open(name)
  return f:read("n", "n", "n"), f:read(1), f:read "l", f:read "L", f:read("l", "L"), f:read(4), f:read(0), f:read "a", f:read "a", f:read "l", f:read(0), f:read "n"
end, 30)

check("numbers that are none", function()
  local r = {}
  for i, text in ipairs { "abc", "1e", "0x", "- 5", ".", "1.2.3", "99999999999999999999", "0x1p4", "nan", "1e+", ("1"):rep(250), "  42", "\n7", "5x", "+3", "1,2" } do
    put(text)
    local f <close> = io.open(name)
    r[i] = { f:read("n"), f:read "a" }
  end
  return r
end, 10)

check("wrong formats", function()
  put "text"
  local f <close> = io.open(name)
  return { pcall(f.read, f, "x") }, { pcall(f.read, f, "*x") }, f:read "*l", { pcall(f.read, f, {}) }, { pcall(f.read, f, -1) }, { pcall(f.read) }, { pcall(f.read, {}) }
end, 20)

check("old formats", function()
  put "5 line\nall of\nit"
  local f <close> = io.open(name)
  return f:read("*n", "*l", "*a")
end, 20)

check("seek", function()
  put "0123456789"
  local f <close> = io.open(name, "r+")
  return f:seek(), f:seek "end", f:seek("set", 3), f:read(2), f:seek("cur", -1), f:read(1), f:seek("end", -2), f:read "a", { f:seek("set", -1) }, { pcall(f.seek, f, "bad") }, f:seek("set", 100), f:read(1),
    { pcall(f.seek, f, "set", 1.5) }
end, 20)

check("modes", function()
  put "abc"
  local r = {}
  for i, mode in ipairs { "r", "rb", "r+", "a", "a+", "w+", "w" } do
    local f = io.open(name, mode)
    r[i] = { mode, (f:write("x")) ~= nil, f:seek("set") ~= nil, f:read "a" }
    f:close()
  end
  return r, { pcall(io.open, name, "z") }, { pcall(io.open, name, "rw") }, { pcall(io.open, name, "r++") }
end, 20)

check("what is not there", function()
  return { plain(io.open(folder .. "/none")) }, { plain(io.open(folder .. "/none/deeper", "w")) }, { plain(pcall(io.lines, folder .. "/none")) }, { plain(os.remove(folder .. "/none")) },
    { plain(os.rename(folder .. "/none", folder .. "/other")) }, { plain(pcall(io.input, folder .. "/none")) }, { plain(pcall(dofile, folder .. "/none")) }, { plain(loadfile(folder .. "/none")) }
end)

check("a folder is no file", function()
  local f = io.open(folder)
  return io.type(f), f:read(1), f:read("a"), f:close()
end)

check("closed files", function()
  put "x"
  local f = io.open(name)
  local r = { f:close() }
  return r, io.type(f), tostring(f), { pcall(f.read, f) }, { pcall(f.close, f) }, { pcall(f.lines, f) }, { pcall(io.close, f) }, { pcall(f.seek, f) }, { pcall(f.write, f, "x") }
end)

check("types", function()
  local f <close> = io.tmpfile()
  return io.type(f), io.type(io.stdout), io.type(5), io.type({}), { pcall(io.type) }, (tostring(f):gsub("0x%x+", "PTR"))
end)

check("write", function()
  local f = io.open(name, "w")
  local same = f:write("a", 1, 2.5, "b", math.huge) == f
  local wrong = { pcall(f.write, f, {}) }
  local wrong2 = { pcall(f.write, f, nil) }
  f:close()
  return same, get(), wrong, wrong2
end)

check("write to what is read", function()
  put "x"
  local f <close> = io.open(name, "r")
  return f:write "y"
end)

check("read from what is written", function()
  local f <close> = io.open(name, "w")
  return f:read "a", { f:read "l" }, { f:read(1) }
end)

check("buffers", function()
  local f <close> = io.open(name, "w")
  return f:setvbuf "no", f:setvbuf("full", 1024), f:setvbuf "line", { pcall(f.setvbuf, f, "bad") }, f:flush() == f, io.type(f)
end)

check("lines", function()
  put "a\nb\nc"
  local r = {}
  for line in io.lines(name, "L") do r[#r + 1] = line end
  for a, b in io.lines(name, 1, "l") do r[#r + 1] = a .. "|" .. tostring(b) end
  for c in io.lines(name, 2) do r[#r + 1] = c end
  local f = io.open(name)
  for line in f:lines() do r[#r + 1] = "f " .. line end
  return r, io.type(f), f:close()
end, 20)

check("lines, left early and gone on", function()
  put "1\n2\n3\n4"
  local f <close> = io.open(name)
  local r = {}
  for line in f:lines() do r[#r + 1] = line if line == "2" then break end end
  for line in f:lines() do r[#r + 1] = "again " .. line end
  return r
end, 20)

check("io.lines closes its file", function()
  put "x"
  local iterator, _, _, closer = io.lines(name)
  iterator()
  iterator()
  return { pcall(iterator) }, io.type(closer)
end, 20)

check("io.lines left by break", function()
  put "1\n2\n3"
  local file
  for _ in io.lines(name) do file = true break end
  return file
end, 20)

check("many formats for lines", function()
  local formats = {}
  for i = 1, 300 do formats[i] = "l" end
  return { pcall(io.lines, name, table.unpack(formats)) }
end)

check("default input and output", function()
  put "from input\nsecond"
  local old_in, old_out = io.input(), io.output()
  io.input(name)
  local a, b, c = io.read("l", "l", "l")
  io.close(io.input())
  io.input(old_in)
  io.output(name)
  io.write("to output ", 5)
  io.close()
  io.output(old_out)
  return a, b, c, get(), io.output() == old_out
end, 20)

check("close without a default", function()
  local old = io.output()
  io.output(name)
  io.close()
  local r = { plain(pcall(io.write, "x")) }
  io.output(old)
  return r
end)

check("<close> on files", function()
  local f
  do
    local g <close> = io.open(name, "w")
    f = g
  end
  return io.type(f)
end)

check("tmpfile", function()
  local f <close> = io.tmpfile()
  f:write "temporary"
  f:seek "set"
  return f:read "a"
end, 10)

check("tmpname", function()
  local n = os.tmpname()
  local there = io.open(n)
  local r = there ~= nil
  if there then there:close() end
  os.remove(n)
  return type(n), r, (io.open(n))
end, 10)

check("remove and rename", function()
  put "x"
  return os.rename(name, name .. "2"), plain(io.open(name)), os.remove(name .. "2"), { plain(os.remove(name .. "2")) }, { plain(os.remove(folder .. "/../" .. "nonexistent-folder")) }
end, 10)

check("binary", function()
  local all = {}
  for i = 0, 255 do all[#all + 1] = string.char(i) end
  local s = table.concat(all)
  local f = io.open(name, "wb")
  f:write(s, "\r\n", s)
  f:close()
  return get() == s .. "\r\n" .. s
end, 20)

check("a line without end", function()
  put "no newline"
  local f <close> = io.open(name)
  return f:read "L", f:read "L"
end, 20)

check("large files", function()
  local f = io.open(name, "w")
  for i = 1, 5000 do f:write("line number ", i, "\n") end
  f:close()
  local n, bytes = 0, 0
  for line in io.lines(name) do n = n + 1 bytes = bytes + #line end
  local g <close> = io.open(name)
  return n, bytes, #g:read "a", g:seek "cur"
end, 10)

check("long lines", function()
  put(("x"):rep(100000) .. "\n" .. ("y"):rep(5000))
  local f <close> = io.open(name)
  return #f:read "l", #f:read "l", f:read "l"
end, 10)

check("dofile and loadfile", function()
  put "local a = ... return 'loaded', a, x_in_env"
  local r = { dofile(name) }
  local s = { loadfile(name)("arg") }
  local t = { loadfile(name, "t", { x_in_env = 5 })("arg") }
  put "#!/usr/bin/lua\nreturn 'after shebang'"
  local u = dofile(name)
  put "return +"
  local v = { plain(loadfile(name)) }
  put "error('in file')"
  local w = { plain(pcall(dofile, name)) }
  return r, s, t, u, v, w, { plain(loadfile(name, "b")) }
end, 10)

check("methods of files", function()
  local names = {}
  for k in pairs(getmetatable(io.stdout).__index) do names[#names + 1] = k end
  table.sort(names)
  return table.concat(names, " ")
end)

check("what io has", function()
  local names = {}
  for k in pairs(io) do names[#names + 1] = k end
  table.sort(names)
  return table.concat(names, " ")
end)

check("reading numbers one after the other", function()
  put "1 2 3\n4 5.5 0x10 nothing"
  local f <close> = io.open(name)
  local r = {}
  for n in f:lines "n" do r[#r + 1] = n end
  return r, f:read "a"
end, 20)

check("many files at once", function()
  local list = {}
  for i = 1, 50 do list[i] = assert(io.open(name .. i, "w")) list[i]:write(i) end
  for i = 1, 50 do list[i]:close() end
  local sum = 0
  for i = 1, 50 do local f <close> = io.open(name .. i) sum = sum + f:read "n" os.remove(name .. i) end
  return sum
end, 3)

check("files in coroutines", function()
  put "a\nb\nc"
  local co = coroutine.wrap(function() for line in io.lines(name) do coroutine.yield(line) end return "end" end)
  return co(), co(), co(), co()
end, 20)
