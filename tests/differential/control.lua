-- Control: goto, loops, varargs, closures, multiple assignment, scopes.

check("goto continue", function()
  local list = {}
  for i = 1, 10 do
    if i % 3 == 0 then goto continue end
    list[#list + 1] = i
    ::continue::
  end
  return table.concat(list, " ")
end)

check("goto out of nested loops", function()
  for i = 1, 10 do
    for j = 1, 10 do
      if i * j == 42 then goto found end
    end
  end
  do return "none" end
  ::found::
  return "found"
end)

check("goto makes new locals", function()
  local list = {}
  do
    local i = 1
    ::top::
    local x = i * 10
    list[i] = function() x = x + 1 return x end
    i = i + 1
    if i <= 3 then goto top end
  end
  return list[1](), list[2](), list[3](), list[1]()
end)

check("wrong gotos", function()
  return { load "goto nowhere" }, { load "do ::a:: end goto a" }, { load "::a:: ::a::" }, { load "goto f; local x; ::f:: print(x)" },
    { load "break" }, { load "repeat goto c local x ::c:: until x" }
end)

check("numeric for", function()
  local function run(a, b, c)
    local list = {}
    for i = a, b, c do list[#list + 1] = i if #list > 5 then break end end
    return list
  end
  return run(1, 3, 1), run(3, 1, -1), run(1, 0, 1), run(1, 2, 0.5), run(math.maxinteger - 1, math.maxinteger, 1),
    run(math.mininteger + 1, math.mininteger, -1), run(1, math.huge, 1e300), run(1.5, 3, 1), run(3, 2.5, -1), run(1, 3.9, 1)
end)

check("numeric for, wrong", function()
  return { pcall(load "for i = 'a', 2 do end") }, { pcall(load "for i = 1, {} do end") }, { pcall(load "for i = 1, 2, 0 do end") },
    { pcall(load "for i = 1, 2, 'x' do end") }, { pcall(load "for i = 1, 'x' do end") }, { pcall(load "for i = 1.5, 2, 0 do end") }
end)

check("each turn of a loop has variables of its own", function()
  local list = {}
  for i = 1, 3 do
    local own = i -- in Lua 5.5 the loop's own variable cannot be assigned to
    list[i] = function() own = own + 10 return own end
  end
  return list[1](), list[1](), list[2]()
end)

check("repeat sees its locals", function()
  local n = 0
  repeat local done = n == 3 n = n + 1 until done
  return n
end)

check("varargs", function()
  local function count(...) return select("#", ...) end
  local function pass(...) return ... end
  local function mid(...) return (...), ... end
  return count(), count(nil), count(nil, nil), count(pass()), count(pass(nil, nil)), count(mid(1, 2)), count((pass(1, 2, 3)))
end)

check("select", function()
  return { select(2, "a", "b", "c") }, { select(-1, "a", "b", "c") }, { select(-2, "a", "b") }, { select(5, 1) },
    { pcall(select, 0) }, { pcall(select, -5, 1) }, { pcall(select, "x") }, { pcall(select) }
end)

check("table constructors", function()
  local function f() return 1, 2, 3 end
  return { f(), f() }, { f(), 10 }, { (f()) }, { f(), nil }, { [1] = "a", "b" }, { n = f(), f() }, { f(), [2] = "x" }
end)

check("large constructors", function()
  local parts = {}
  for i = 1, 300 do parts[i] = tostring(i) end
  local t = load("return {" .. table.concat(parts, ",") .. "}")()
  return #t, t[1], t[50], t[51], t[300]
end, 20)

check("multiple assignment", function()
  local a, b, c = 1, 2, 3
  a, b, c = c, a
  local i, t = 1, {}
  i, t[i] = i + 1, 20
  local x, y, z = (function() return 1, 2, 3 end)()
  return a, b, c, i, t, x, y, z
end)

check("evaluation order of calls", function()
  local log = {}
  local function f(x) log[#log + 1] = x return x end
  local t = { [f(1)] = f(2), f(3) }
  local r = f(4) + f(5) * f(6)
  t[f(7)] = f(8)
  return log, r
end)

check("and, or, not", function()
  return 1 and 2, nil and 2, false or "x", nil or false, not nil, not 0, 1 and nil or 3, false == nil, (nil and nil) == nil
end)

check("comparisons chained by and", function()
  local n = 0
  local function t(v) n = n + 1 return v end
  local r = t(true) and t(false) and t(true) or t(5)
  return r, n
end)

check("upvalues are shared", function()
  local function counter()
    local n = 0
    return function() n = n + 1 return n end, function() return n end, function(v) n = v end
  end
  local inc, get, set = counter()
  inc() inc()
  local a = get()
  set(10)
  return a, inc(), get(), (counter())()
end)

check("closures in loops", function()
  local list = {}
  for i = 1, 3 do
    local x = i
    list[#list + 1] = function() x = x + i return x end
  end
  return list[1](), list[1](), list[2](), list[3]()
end)

check("deep recursion", function()
  local function sum(n) if n == 0 then return 0 end return n + sum(n - 1) end
  return sum(5000)
end, 20)

check("tail calls without end", function()
  local function loop(n) if n == 0 then return "done" end return loop(n - 1) end
  return loop(20000)
end, 20)

check("mutual tail calls", function()
  local even, odd
  function even(n) if n == 0 then return true end return odd(n - 1) end
  function odd(n) if n == 0 then return false end return even(n - 1) end
  return even(10001)
end, 20)

check("many locals", function()
  local code = {}
  for i = 1, 200 do code[i] = "local v" .. i .. " = " .. i end
  code[#code + 1] = "return v1 + v100 + v200"
  local f = load(table.concat(code, "\n"))
  return f(), load(table.concat(code, "\n", 1, 200) .. "\nlocal one_more")
end, 5)

check("many upvalues", function()
  local code = {}
  for i = 1, 100 do code[i] = "local v" .. i .. " = " .. i end
  code[#code + 1] = "return function() return v1"
  for i = 2, 100 do code[#code + 1] = " + v" .. i end
  code[#code + 1] = " end"
  return load(table.concat(code, "\n"))()()
end, 10)

check("long strings and comments", function()
  --[==[ not ]] this ]==]
  return [[
first]], [==[a]]b]==], "\z
    z", "\x41\u{48}\065\10", '\'', #"\0\0"
end)

check("integer division and modulo in loops", function()
  local x = 0
  for i = -5, 5 do
    if i ~= 0 then x = x * 3 + (7 // i) + (7 % i) + (-7 // i) * 2 + (-7 % i) end
  end
  return x
end)

check("const", function()
  local a <const>, b <const> = 5, "x"
  local function f() return a * 2, b .. b end
  return f()
end)

check("methods", function()
  local o = { v = 1 }
  function o:inc(n) self.v = self.v + (n or 1) return self end
  function o.plain(x) return x end
  return o:inc():inc(5).v, o.plain(3), ("x"):rep(3), #("abc"):upper()
end)

check("long chains", function()
  local parts = {}
  for i = 1, 190 do parts[i] = i end
  return load("return " .. table.concat(parts, " .. ") )(), load("return " .. table.concat(parts, " + "))()
end, 10)

check("environments", function()
  local env = { x = 5 }
  local f = load("x = x + 1; y = 2; return x, _ENV == ...", "c", "t", env)
  local r = { f(env) }
  local function g() local _ENV = { z = 9 } return z end
  return r, env, g(), { pcall(function() local _ENV = nil return q end) }
end)

check("shadowing", function()
  local x = 1
  local x = x + 1
  do local x = x * 10 x = x + 1 end
  local function x2() return x end
  local x = "last"
  return x, x2()
end)
