-- Errors: their values, messages, levels, handlers and tracebacks.

check("values of every kind", function()
  local t = {}
  return { pcall(error, "text") }, { pcall(error, 5) }, { pcall(error, nil) }, { pcall(error) }, { pcall(error, true) },
    select(2, pcall(error, t)) == t, select(2, pcall(error, print)) == print
end)

check("levels", function()
  local function raise(level) error("m", level) end
  local function outer(level) raise(level) end
  return { pcall(outer, 0) }, { pcall(outer, 1) }, { pcall(outer, 2) }, { pcall(outer, 3) }, { pcall(outer, 50) }
end)

check("numbers as messages", function()
  return { pcall(function() error(42) end) }, { pcall(function() error("x" .. 1) end) }, { pcall(function() error(1.5, 2) end) }
end)

check("assert", function()
  return { assert(1, 2, 3) }, { pcall(assert, nil) }, { pcall(assert, false, "why") }, { pcall(assert, nil, { 1 }) }, { pcall(assert) },
    { pcall(assert, nil, nil) }, { pcall(assert, false, 5) }
end)

check("pcall without arguments", function() return pcall(pcall) end)
check("xpcall without a handler", function() return pcall(xpcall, print) end)
check("pcall of nil", function() return pcall(nil) end)
check("xpcall of nil", function() return xpcall(nil, function(m) return "H " .. m end) end)

check("handlers", function()
  local function handler(m) return "handled " .. tostring(m), "dropped" end
  return { xpcall(error, handler, "E") }, { xpcall(function(...) return ... end, handler, 1, nil, 3) },
    { xpcall(function() local x = nil; x() end, handler) }
end)

check("a handler sees the stack", function()
  local function thrower() error "T" end
  local function handler() return (debug.traceback("tb", 1):gsub("\n%s*%[C%]: in %?$", "")) end
  local _, trace = xpcall(thrower, handler)
  return trace:match("^(.-)\n[^\n]*function 'xpcall'")
end)

check("a handler that fails", function()
  return { xpcall(error, function() error "in handler" end, "E") }
end)

check("a handler that fails once", function()
  local n = 0
  return { xpcall(error, function(m)
    n = n + 1
    if n < 3 then error("again " .. n, 0) end
    return "at last " .. tostring(m)
  end, "E") }, n
end)

check("a handler that is not a function", function()
  return { xpcall(error, 5, "E") }
end)

check("nested handlers", function()
  return xpcall(function()
    local r = { xpcall(error, function(m) return "inner " .. m end, "A") }
    error(r[2], 0)
  end, function(m) return "outer " .. m end)
end)

check("a pcall in a handler", function()
  return xpcall(error, function(m) local ok, e = pcall(error, "second", 0) return { m, ok, e } end, "first")
end)

check("pcall in pcall in pcall", function()
  return pcall(pcall, pcall, error, "x")
end)

check("rethrowing", function()
  local value = { code = 5 }
  local ok, err = pcall(function()
    local ok, e = pcall(error, value)
    error(e)
  end)
  return ok, err == value
end)

check("names of variables", function()
  local loc = nil
  local t = { field = {} }
  local up
  return { pcall(function() return loc.x end) }, { pcall(function() local l = 1; l() end) }, { pcall(function() t.field.missing() end) },
    { pcall(function() t:nomethod() end) }, { pcall(function() up.x.y = 1 end) }, { pcall(function() return t.field + 1 end) },
    { pcall(function() glob_a.b = 1 end) }, { pcall(function() return "a" + {} end) }, { pcall(function() return 2 .. {} end) },
    { pcall(function() local a <const> = nil; return a.x end) }, { pcall(function() return t[loc].x end) }
end)

check("arguments of library functions", function()
  return { pcall(string.rep) }, { pcall(string.rep, "x") }, { pcall(string.rep, "x", "y") }, { pcall(string.rep, "x", 1.5) },
    { pcall(("x").rep, "x", {}) }, { pcall(math.floor, "a") }, { pcall(math.floor) }, { pcall(table.concat, 1) },
    { pcall(table.concat, { {} }) }, { pcall(table.insert, {}, 5, 1) }, { pcall(table.insert, {}) }, { pcall(table.insert, {}, 1, 2, 3) },
    { pcall(setmetatable, {}) }, { pcall(tonumber) }, { pcall(tonumber, "z", 99) }, { pcall(tonumber, 5, 10) }, { pcall(string.char, 256) },
    { pcall(string.char, -1) }, { pcall(utf8.char, -1) }, { pcall(math.random, 0, -1) }, { pcall(ipairs) }, { pcall(rawset, 1, 2, 3) },
    { pcall(next, {}, "nokey") }, { pcall(select, "x") }, { pcall(string.format, "%d", "x") }, { pcall(string.format, "%d", 1.5) }
end)

check("methods with a bad self", function()
  return { pcall(function() return ("x"):rep({}) end) }, { pcall(function() return ("x").rep() end) },
    { pcall(function() local s = "x" return s:bad() end) }, { pcall(function() return string.upper({}) end) }
end)

check("called by a global, a local, a field", function()
  local rep, lib = string.rep, { repeat_it = string.rep }
  return { pcall(function() rep() end) }, { pcall(function() lib.repeat_it() end) }, { pcall(function() string.rep() end) },
    { pcall(function() return string.rep() end) }
end)

check("syntax errors", function()
  local r = {}
  for i, code in ipairs { "x =", "x = = 1", "for", "if x then", "local function end", "return return", "x = 'abc", "x = [[abc", "--[[ abc",
    "x = 1e", "x = 0x", "x = 3..4", "f(", "a.b:c = 1", "goto = 1", "::x", "local x <const", "x = '\\q'", "x = '\\300'", "x = '\\u{110000000}'",
    "x = '\\xZZ'", "else", "end", "local 5 = 1", "f() = 1", "x = }", "return ...", "function f() return ... end", "a = 5 b", "=", "\1", "x = @" } do
    r[i] = select(2, load(code, "=chunk")) or "fine"
  end
  return r
end)

check("line numbers", function()
  local code = "local a = 1\nlocal b = 2\n\nlocal t = nil\nlocal c = a +\n  b +\n  t.x\n"
  return { pcall(load(code, "=chunk")) }, { pcall(load("local x\n\n\nx(\n1,\n2)\n", "=chunk")) }, { pcall(load("error(\n'x'\n)", "=chunk")) }
end)

check("chunk names", function()
  local function at(name) return select(2, pcall(load("error 'x'", name))) end
  return at("=name"), at("@file.lua"), at("code here"), at("first\nsecond"), at(("x"):rep(100)), at("=" .. ("x"):rep(100)),
    at("@" .. ("x"):rep(100)), at(""), at("\n")
end)

check("tostring of errors with metatables", function()
  local e = setmetatable({}, { __tostring = function() return "custom" end })
  local ok, err = pcall(error, e)
  return ok, tostring(err), err == e
end)

check("traceback", function()
  local function f() return debug.traceback("msg", 1) end
  local function g() local r = f() return r end
  local text = g()
  return text:match("^msg\nstack traceback:\n[^\n]*\n[^\n]*")
end)

check("traceback of other values", function()
  local t = {}
  return debug.traceback(t) == t, debug.traceback(nil) ~= nil, debug.traceback(5, 99), debug.traceback("x", 99)
end)

check("traceback, deep", function()
  local text
  local function f(n) if n == 0 then text = debug.traceback("deep") else f(n - 1) end end
  f(100)
  local lines = select(2, text:gsub("\n", "\n"))
  return lines, text:match("%.%.%.[^\n]*"):gsub("%d+", "N")
end)

check("traceback with tail calls and metamethods", function()
  local text
  local function last() text = debug.traceback("t", 1) return 1 end
  local function tail() return last() end
  local t = setmetatable({}, { __index = function() local r = tail() return r end })
  local _ = t.x
  return text:match("^t\n(.-)\n[^\n]*in function <[^\n]*\n?")
end)

check("error in a for iterator", function()
  return pcall(function() for _ in function() error("it", 0) end do end end)
end)

check("error while it burns", function()
  local function f(n) burn(500) if n == 0 then error { "bottom" } end local r = f(n - 1) return r end
  return pcall(f, 10)
end, 60)

check("handlers that burn", function()
  return xpcall(function() burn(2000) error("E", 0) end, function(m) burn(2000) return "H " .. m end)
end, 100)

check("many errors in a row", function()
  local n = 0
  for i = 1, 300 do
    local ok, e = pcall(error, i)
    if not ok and e == i then n = n + 1 end
  end
  return n
end)

check("errors with tables as they were", function()
  local log = {}
  for i = 1, 3 do
    local ok, e = pcall(function() error(setmetatable({ i = i }, { __index = { kind = "K" } })) end)
    log[i] = { ok, e.i, e.kind }
  end
  return log
end)

check("out of memory is an ordinary error", function()
  local ok, err = pcall(string.rep, "x", 1 << 40)
  return ok, type(err)
end, 2)

check("resulting string too large", function()
  return { pcall(string.rep, "x", math.maxinteger) }, { pcall(string.rep, "abc", 1 << 62) }
end, 2)
