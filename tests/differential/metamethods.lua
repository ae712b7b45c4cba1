-- Metamethods of every kind: their order, their arguments, and the error when there is none.

local function logger(log)
  local mt = {}
  for _, name in ipairs { "add", "sub", "mul", "div", "mod", "pow", "idiv", "band", "bor", "bxor", "shl", "shr", "concat", "lt", "le", "eq" } do
    mt["__" .. name] = function(a, b)
      log[#log + 1] = name .. " " .. (type(a) == "table" and "T" or tostring(a)) .. " " .. (type(b) == "table" and "T" or tostring(b))
      return name
    end
  end
  return mt
end

check("binary operators, both sides", function()
  local log = {}
  local t = setmetatable({}, logger(log))
  local r = { t + 1, 2 - t, t * t, "3" / t, t % 1, 2 ^ t, t // 3, 1 & t, t | 2, 3 ~ t, t << 1, 2 >> t, t .. "x", 1 .. t,
    t < t, t <= t, t > t, t >= t, t == t, t == setmetatable({}, getmetatable(t)), t ~= 1 }
  return r, log
end)

check("unary operators get the operand twice", function()
  local n = {}
  local mt = {}
  for _, name in ipairs { "__unm", "__bnot", "__len" } do
    mt[name] = function(...) n[name] = select("#", ...) .. tostring((...) == select(2, ...)) return name end
  end
  local t = setmetatable({}, mt)
  return -t, ~t, #t, n
end)

check("results are cut to one", function()
  local t = setmetatable({}, { __add = function() return 1, 2, 3 end, __index = function() return 4, 5 end, __len = function() end,
    __lt = function() return nil end, __le = function() return 0 end })
  return select("#", t + 1), t.x, #t, t < t, t <= t
end)

check("the left one counts", function()
  local a = setmetatable({}, { __add = function() return "a" end, __concat = function() return "a" end, __lt = function() return true end })
  local b = setmetatable({}, { __add = function() return "b" end, __concat = function() return "b" end, __lt = function() return false end })
  return a + b, b + a, a .. b, b .. a, 1 + b, a < b, b < a
end)

check("eq only for different tables", function()
  local n = 0
  local mt = { __eq = function() n = n + 1 return true end }
  local a, b = setmetatable({}, mt), setmetatable({}, mt)
  return a == a, a == b, a ~= b, a == 1, a == "x", n, rawequal(a, b)
end)

check("index chains", function()
  local base = { x = "base" }
  local mid = setmetatable({ y = "mid" }, { __index = base })
  local top = setmetatable({}, { __index = mid })
  return top.x, top.y, top.z, rawget(top, "x")
end)

check("index functions", function()
  local t = setmetatable({}, { __index = function(_, k) return type(k) .. tostring(k) end })
  return t.a, t[1], t[1.5], t[true], t[-0.0]
end)

check("newindex", function()
  local log, store = {}, {}
  local t = setmetatable({ old = 1 }, { __newindex = function(_, k, v) log[#log + 1] = tostring(k) .. "=" .. tostring(v) end })
  t.old = 2
  t.new = 3
  rawset(t, "raw", 4)
  local u = setmetatable({}, { __newindex = store })
  u.x = 5
  return log, t.old, t.new, t.raw, rawget(u, "x"), store.x
end)

check("index loops", function()
  local t = {}
  setmetatable(t, { __index = t })
  local a, b = {}, {}
  setmetatable(a, { __index = b })
  setmetatable(b, { __index = a })
  return { pcall(function() return t.x end) }, { pcall(function() return a.x end) }
end)

check("newindex loops", function()
  local t = {}
  setmetatable(t, { __newindex = t })
  return pcall(function() t.x = 1 end)
end)

check("call", function()
  local t = setmetatable({}, { __call = function(self, ...) return type(self), select("#", ...), ... end })
  local u = setmetatable({}, { __call = t })
  return { t(1, nil, 3) }, { pcall(t, "x") }, { u(5) }, select(2, pcall(setmetatable({}, { __call = 1 })))
end)

check("call in tail position, in wrap, in xpcall", function()
  local t = setmetatable({}, { __call = function(_, x) return "called", x end })
  local function f() return t(1) end
  return { f() }, { coroutine.wrap(t)(2) }, { xpcall(t, print, 3) }
end)

-- Two at a time: in Lua 5.4.4, three of them crash if the metamethod needs a larger stack.
check("concat", function()
  local mt = { __concat = function(a, b)
    return "(" .. (type(a) == "table" and "T" or a) .. "," .. (type(b) == "table" and "T" or b) .. ")"
  end }
  local t = setmetatable({}, mt)
  return "b" .. t, t .. "a", 1 .. t, t .. t, t .. 2.5
end)

check("len for tables and strings", function()
  local t = setmetatable({ 1, 2, 3 }, { __len = function() return 42 end })
  return #t, rawlen(t), #"abc", rawlen("abc"), { pcall(rawlen, 5) }, { pcall(function() return #5 end) }
end)

check("tostring and name", function()
  local t = setmetatable({}, { __tostring = function() return "I am T" end })
  local n = setmetatable({}, { __name = "My.Type" })
  return tostring(t), (tostring(n):gsub("0x%x+", "PTR")), { pcall(tostring, setmetatable({}, { __tostring = function() return 1 end })) },
    { pcall(tostring, setmetatable({}, { __tostring = function() error("in it", 0) end })) }
end)

check("names in messages", function()
  local n = setmetatable({}, { __name = "My.Type" })
  return { pcall(function() return n + 1 end) }, { pcall(function() return #n < n end) }, { pcall(function() return n() end) },
    { pcall(string.rep, n) }, { pcall(ipairs) }, { pcall(setmetatable, 1, {}) }
end)

check("a metatable that is hidden", function()
  local t = setmetatable({}, { __metatable = "locked" })
  return getmetatable(t), { pcall(setmetatable, t, {}) }, getmetatable(setmetatable({}, { __metatable = false }))
end)

check("pairs", function()
  local t = setmetatable({}, { __pairs = function(t) return function(_, k) if not k then return 1, "v" end end, t, nil end })
  local list = {}
  for k, v in pairs(t) do list[k] = v end
  return list, select("#", pairs({})), { pcall(pairs) }, { pcall(pairs, 1) }
end)

check("ipairs respects index", function()
  local list = {}
  for i, v in ipairs(setmetatable({}, { __index = function(_, i) if i < 4 then return i * i end end })) do list[i] = v end
  return list
end)

check("arithmetic on what cannot", function()
  local t, s, f = {}, "abc", print
  return { pcall(function() return t + 1 end) }, { pcall(function() return 1 + s end) }, { pcall(function() return f .. "x" end) },
    { pcall(function() return t < 1 end) }, { pcall(function() return {} < {} end) }, { pcall(function() return nil < 1 end) },
    { pcall(function() return "a" < 1 end) }, { pcall(function() return 1.5 & 1 end) }, { pcall(function() return "1.5" | 1 end) },
    { pcall(function() return 1 // 0 end) }, { pcall(function() return 1 % 0 end) }, { pcall(function() return -t end) },
    { pcall(function() return ~1.5 end) }, { pcall(function() return 2^63 | 0 end) }, { pcall(function() return s ~ 1 end) }
end)

check("indexing what cannot", function()
  local t, n = {}, nil
  return { pcall(function() return n.x end) }, { pcall(function() return t.x.y end) }, { pcall(function() n.x = 1 end) },
    { pcall(function() t[nil] = 1 end) }, { pcall(function() t[0 / 0] = 1 end) }, { pcall(function() return ("x").y.z end) },
    { pcall(function() return undefined_global.x end) }, { pcall(function() return (1).x end) }, { pcall(function() t.a.b.c = 1 end) }
end)

check("calling what cannot", function()
  local t, n = {}, nil
  return { pcall(function() n() end) }, { pcall(function() t.f() end) }, { pcall(function() t:m() end) },
    { pcall(function() undefined_global() end) }, { pcall(function() ("x")() end) }, { pcall(function() t.a.b() end) },
    { pcall(function() (1)() end) }, { pcall(1) }, { pcall(function() for _ in nil do end end) }, { pcall(function() for _ in 5 do end end) }
end)

check("string methods through arithmetic", function()
  return "10" + 5, "0x10" * 2, "1e1" // 3, 10 .. 20, "3" ^ 2, -"2", "7" % 4, "  5  " + 0, { pcall(function() return "x" + 1 end) },
    "10" | 1, { pcall(function() return "10" < 5 end) }
end)

check("string's metatable", function()
  return ("abc"):len(), ("x").len ~= nil, (getmetatable("") or {}).__name
end)

check("comparing mixed numbers", function()
  return 1 == 1.0, math.maxinteger + 0.0 == math.maxinteger, math.maxinteger < math.maxinteger + 0.0, 1 < 1.5, -1 > -1.5,
    math.mininteger <= -2^63, 2^53 == 2^53 + 1, 0 / 0 == 0 / 0, 1 < 0 / 0, "a" < "b", "a" < "B", "" < "a", "a\0b" < "a\0c", "Z" < "a"
end)

check("inheritance with super", function()
  local Base = {} Base.__index = Base
  function Base.new(c, v) return setmetatable({ v = v }, c) end
  function Base:name() return "base " .. self.v end
  local Child = setmetatable({}, { __index = Base }) Child.__index = Child
  function Child:name() return "child of " .. Base.name(self) end
  return Child:new(5):name(), Base:new(1):name()
end)

check("metamethods that fail", function()
  local mt = {}
  for _, name in ipairs { "__add", "__index", "__newindex", "__call", "__concat", "__len", "__eq", "__lt", "__tostring", "__pairs" } do
    mt[name] = function() error(name, 0) end
  end
  local t, u = setmetatable({}, mt), setmetatable({}, mt)
  return { pcall(function() return t + 1 end) }, { pcall(function() return t.x end) }, { pcall(function() t.x = 1 end) }, { pcall(t) },
    { pcall(function() return t .. "x" end) }, { pcall(function() return #t end) }, { pcall(function() return t == u end) },
    { pcall(function() return t < u end) }, { pcall(tostring, t) }, { pcall(pairs, t) }
end)

check("metamethods that burn", function()
  local mt = {}
  for _, name in ipairs { "__add", "__index", "__concat", "__len", "__lt", "__le", "__unm", "__call" } do
    mt[name] = function() burn(2000) return name end
  end
  mt.__newindex = function(t, k, v) burn(2000) rawset(t, k, v) end
  mt.__eq = function() burn(2000) return true end
  local t, u = setmetatable({}, mt), setmetatable({}, mt)
  t.set = 5
  return t + 1, t.x, "a" .. t, #t, t < u, t <= u, -t, t(), rawget(t, "set"), t == u, t ~= u
end, 60)

check("a chain of __call", function()
  local f = function(...) return select("#", ...) end
  for _ = 1, 10 do f = setmetatable({}, { __call = f }) end
  return f(1)
end)

check("weak keys compare raw", function()
  local t = setmetatable({}, { __mode = "k" })
  local k = setmetatable({}, { __eq = function() return true end })
  t[k] = 1
  return t[k], t[setmetatable({}, getmetatable(k))]
end)

check("__index on missing methods", function()
  local t = setmetatable({}, { __index = function(_, k) return function(self, x) return k, type(self), x end end })
  return t:hello(1)
end)

check("__div and floats", function()
  return 7 / 2, 7 // 2, 7.0 // 2, -7 // 2, -7 % 3, 7 % -3, 5.5 % 2, -5.5 % 2, 1e308 * 10, -1 / 0, 2 ^ 0.5, 8 // 0.0, 0.0 / 0 ~= 0.0 / 0
end)
