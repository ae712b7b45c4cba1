-- load, and what it compiles.

check("text", function()
  return load("return 1 + 1")(), load("x = ")  , { load("return ...", "n")(1, 2) }, load("")(), { load("return") }, select("#", load("")())
end)

check("a function that gives pieces", function()
  local function pieces(list) local i = 0 return function() i = i + 1 return list[i] end end
  return load(pieces { "return ", "4", "2" })(), load(pieces { "return 1", "", "+ 1" })(), load(pieces {})(), { load(pieces { "return (" }, "=p") }
end)

check("a function that fails", function()
  return { load(function() error("in reader", 0) end) }, { load(function() error { 5 } end) }, { load(function() return {} end) }, { load(function() return true end) }
end)

check("modes", function()
  return { load("return 1", "c", "b") }, load("return 1", "c", "t")(), load("return 1", "c", "bt")(), { pcall(load, "return 1", "c", "x") }, { pcall(load, "return 1", "c", {}) }
end)

check("environments", function()
  local env = {}
  load("a = 1; b = a", "c", "t", env)()
  return env, { pcall(load("return x.y", "=c", "t", {})) }, { pcall(load("x = 1", "=c", "t", nil)) }, load("return _ENV", "c", "t", 5)()
end)

check("wrong arguments", function()
  return { pcall(load) }, { pcall(load, nil) }, { pcall(load, {}) }, { pcall(load, 5) }
end)

check("a shebang is only for files", function() return load("#!x\nreturn 1", "=c") end)

check("upvalues of chunks", function()
  local f = load "local a = ... return function() a = a + 1 return a end"
  local x, y = f(1), f(10)
  return x(), x(), y()
end)

check("each load is its own function", function()
  local a, b = load "return 1", load "return 1"
  return a == b, a() == b()
end)

check("numbers and operators", function()
  return load("return 2^3^2, -2^2, not nil == true, 1 .. 2, 1 < 2 == true, 7 // 2 * 2 + 7 % 2, 1 << 2 + 1, 5 & 3 | 8, 'a' .. 'b' == 'ab', #'abc' + 1, -3 % 5, ~0 >> 60")()
end)

check("precedence of comparison", function() return load("return 1 + 1 == 2 and 2 < 3 or false, not 1 == 2, 2 * 3 .. 4")() end)

check("deep nesting", function()
  local n = 150
  return load("return " .. ("("):rep(n) .. "1" .. (")"):rep(n))(), { load("return " .. ("("):rep(300) .. "1" .. (")"):rep(300), "=c") }, { load(("do "):rep(300) .. ("end "):rep(300), "=c") },
    { load("return " .. ("{"):rep(300) .. ("}"):rep(300), "=c") }
end, 5)

check("constants", function()
  local code = {}
  for i = 1, 300 do code[i] = ("t[%d] = %d.5 + %q"):format(i, i, i) end
  return #load("local t = {} " .. table.concat(code, " ") .. " return t")()
end, 5)

check("large functions", function()
  local code = { "local x = 0" }
  for i = 1, 1000 do code[#code + 1] = "x = x + " .. i end
  code[#code + 1] = "return x"
  return load(table.concat(code, "\n"))()
end, 5)

check("long jumps", function()
  local body = ("x = x + 1 "):rep(1000)
  return load("local x = 0 for i = 1, 3 do " .. body .. " end return x")(), load("local x = 0 while x < 1500 do " .. body .. " end return x")()
end, 5)

check("names", function()
  return load("local _a1, B2 = 1, 2 return _a1 + B2")(), { load("local é = 1", "=c") }, { load("local end = 1", "=c") }, load("local _ENV = { x = 5 } return x")()
end)

check("comments", function()
  return load("-- a comment\nreturn 1 --[[ inline ]] + --[==[ more ]] ]==] 1 -- last")(), { load("--[[ never ends", "=c") }
end)

check("compiling while it burns", function()
  local parts = {}
  for i = 1, 40 do parts[i] = ("function f%d(a, b) local t = { a, b, x = a } for i = 1, 3 do t[i] = i .. 'x' end return t end"):format(i) end
  local env = {}
  load(table.concat(parts, "\n"), "=c", "t", env)()
  return #env.f1(1, 2), env.f40 ~= nil
end, 20)

check("semicolons and ambiguity", function()
  return load("local a = 1;;; local b = 2; return a + b")(), { load("return 1; 2", "=c") }, load("local f = function() return 5 end; (f)() return 6")()
end)

check("method definitions", function()
  return load("local t = { a = { b = {} } } function t.a.b.f(x) return x end function t.a.b:g(x) return self == t.a.b, x end return t.a.b.f(1), t.a.b:g(2)")()
end)

check("integer for at load", function()
  return load("local s = '' for i = 10, 1, -3 do s = s .. i .. ' ' end return s")()
end)
