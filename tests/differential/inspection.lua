-- untrusted: of debug there is traceback alone
-- The debug library, but for hooks.

check("getinfo of functions", function()
  local function f(a, b, ...) return a, b, ... end
  local i = debug.getinfo(f)
  return i.short_src, i.source, i.what, i.nparams, i.isvararg, i.nups, i.currentline, i.lastlinedefined - i.linedefined, i.namewhat, i.func == f, i.istailcall
end)

check("getinfo of C functions", function()
  local i = debug.getinfo(math.abs)
  return i.short_src, i.source, i.what, i.nparams, i.isvararg, i.currentline, i.linedefined, i.lastlinedefined
end)

check("getinfo by level", function()
  local function f() local i = debug.getinfo(1, "nSlt") return i.name, i.namewhat, i.what, i.istailcall end
  local function tail() return debug.getinfo(1, "t").istailcall end
  local function g() return tail() end
  local a, b, c, d = f()
  return a, b, c, d, g(), debug.getinfo(1000), { pcall(debug.getinfo, "x") }, { pcall(debug.getinfo, 1, "X") }, { pcall(debug.getinfo, 1, ">") }
end)

check("names of callers", function()
  local t = setmetatable({}, { __index = function() local i = debug.getinfo(1, "n") return i.name .. " " .. i.namewhat end, __add = function() local i = debug.getinfo(1, "n") return i.name .. " " .. i.namewhat end })
  local o = {}
  function o:method() local i = debug.getinfo(1, "n") return i.name .. " " .. i.namewhat end
  function o.field() local i = debug.getinfo(1, "n") return i.name .. " " .. i.namewhat end
  local for_name
  for x in function(_, i) for_name = debug.getinfo(1, "n") if not i then return 1 end end do local _ = x end
  return t.x, t + 1, (o:method()), (o.field()), for_name.name, for_name.namewhat
end)

check("the main chunk", function()
  local level, last = 1, nil
  while true do
    local i = debug.getinfo(level, "S")
    if not i then break end
    last = i
    level = level + 1
  end
  return last.what, last.short_src
end)

once("the stack of the main chunk", function()
  local r, level = {}, 3
  while true do
    local i = debug.getinfo(level, "Sl")
    if not i then return r end
    r[#r + 1] = i.what .. " " .. i.short_src
    level = level + 1
  end
end)

check("active lines", function()
  local f = load("local a = 1\n\nlocal b = 2\nreturn a + b\n", "=c")
  return debug.getinfo(f, "L").activelines
end)

check("locals", function()
  local function f(a, b)
    local c = a + b
    do local hidden = 1 end
    local names = {}
    local i = 1
    while true do
      local n, v = debug.getlocal(1, i)
      if not n then break end
      names[#names + 1] = n .. "=" .. tostring(type(v) == "table" and "T" or v)
      i = i + 1
    end
    return names, c
  end
  return f(1, 2), debug.getlocal(f, 1), debug.getlocal(f, 2), debug.getlocal(f, 3)
end)

check("varargs as locals", function()
  local function f(...) return { debug.getlocal(1, -1) }, { debug.getlocal(1, -2) }, { debug.getlocal(1, -3) }, debug.setlocal(1, -1, "changed"), ... end
  return f("a", "b")
end)

check("setlocal", function()
  local x, y = 1, 2
  return debug.setlocal(1, 1, 10), x, y, debug.setlocal(1, 99, 1), { pcall(debug.setlocal, 99, 1, 1) }
end)

check("locals of a coroutine", function()
  local co = coroutine.create(function(a) local b = a * 2 coroutine.yield(b) end)
  coroutine.resume(co, 21)
  return { debug.getlocal(co, 1, 1) }, { debug.getlocal(co, 1, 2) }, debug.getinfo(co, 1, "l").currentline ~= nil, debug.setlocal(co, 1, 2, 5), debug.getinfo(co, 0, "n").name, debug.getinfo(co, 9)
end)

check("upvalues", function()
  local a, b = 1, 2
  local function f() return a, b end
  local function g() return b end
  return { debug.getupvalue(f, 1) }, { debug.getupvalue(f, 2) }, debug.getupvalue(f, 3), debug.setupvalue(f, 1, 10), a, debug.upvalueid(f, 2) == debug.upvalueid(g, 1), { pcall(debug.upvalueid, f, 9) }, { debug.getupvalue(math.abs, 1) }
end)

check("upvaluejoin", function()
  local a, b = 1, 2
  local function f() return a end
  local function g() return b end
  debug.upvaluejoin(f, 1, g, 1)
  b = 5
  return f(), { pcall(debug.upvaluejoin, f, 2, g, 1) }, { pcall(debug.upvaluejoin, print, 1, g, 1) }
end)

check("metatables", function()
  local t = setmetatable({}, { __metatable = "locked" })
  local mt = debug.getmetatable(t)
  debug.setmetatable(10, { __index = function(n, k) return n .. k end })
  local r = (5).x
  debug.setmetatable(10, nil)
  return mt.__metatable, r, debug.getmetatable("").__index == string, debug.setmetatable({}, nil) ~= nil, { pcall(debug.setmetatable, {}, 5) }
end)

check("nil with a metatable", function()
  debug.setmetatable(nil, { __index = function(_, k) return "nil's " .. k end, __call = function() return "called" end })
  local n
  local r = { n.x, n() }
  debug.setmetatable(nil, nil)
  return r
end)

check("functions with a metatable", function()
  debug.setmetatable(print, { __add = function(a, b) return type(a) .. type(b) end })
  local r = print + print
  debug.setmetatable(print, nil)
  return r
end)

check("user values", function()
  return debug.getuservalue(5), { debug.getuservalue(io.stdout, 1) }, { pcall(debug.setuservalue, 5, 1) }, debug.setuservalue(io.stdout, 1, 1)
end)

check("registry", function() return type(debug.getregistry()), debug.getregistry()[2] == _G end)

check("traceback levels", function()
  local function f(level) return debug.traceback("m", level) end
  return (f(1):match("^m\nstack traceback:\n[^\n]*")), (f(2):match("^m\nstack traceback:\n[^\n]*"))
end)

once("the whole traceback", function() return (debug.traceback("m"):gsub("%(command line%):%d+", "(command line)")) end)

check("a traceback in a coroutine", function()
  return coroutine.wrap(function() return debug.traceback "inside" end)()
end)

check("what debug has", function()
  local names = {}
  for k in pairs(debug) do names[#names + 1] = k end
  table.sort(names)
  return table.concat(names, " ")
end)

check("getinfo while it burns", function()
  local function f() burn(500) return debug.getinfo(1, "l").currentline - debug.getinfo(1, "S").linedefined end
  return f()
end, 100)
