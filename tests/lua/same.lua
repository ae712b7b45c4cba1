-- The results of library functions as text: a plain Lua and an untrusted isolate must give the
-- same. Gets a seed.

local seed = ...
local lines = {}

local function random(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return (seed >> 8) % n + 1
end

local function show(value)
  local kind = math.type(value) or type(value)
  if kind == "table" then
    local parts = {}
    for i = -1, #value + 1 do
      parts[#parts + 1] = show(value[i])
    end
    return "{" .. table.concat(parts, ",") .. "}"
  elseif kind == "function" or kind == "userdata" or kind == "thread" then
    return kind
  end
  return kind .. ":" .. tostring(value):gsub("0x%x+", "0x")
end

local function record(what, ...)
  local values = table.pack(...)
  for i = 1, values.n do
    values[i] = type(values[i]) == "string" and #values[i] > 200 and #values[i] .. values[i]:sub(1, 90) .. values[i]:sub(-90)
      or show(values[i])
  end
  lines[#lines + 1] = what .. " " .. table.concat(values, " ")
end

-- Called by name from a line of Lua, by pcall, and through a local: messages distinguish these.
local function try(what, fn, ...)
  record(what, pcall(fn, ...))
end

-- A table with metamethods.
local function proxy(real)
  return setmetatable({}, {
    __index = function(_, k) return real[k] end,
    __newindex = function(_, k, v) real[k] = v end,
    __len = function() return #real end,
  })
end

local odd = { nil, true, 0, -1, 1, 2, 3.0, 2.5, 7, "2", "x", "", math.maxinteger, math.mininteger, 1e15, {}, print }
local function value()
  return odd[random(17)]
end

local function list(n)
  local t = {}
  for i = 1, random(n) - 1 do
    t[i] = random(3) == 1 and random(100) or random(3) == 1 and random(100) / 4 or tostring(random(1000))
  end
  return t
end

local function numbers(n)
  local t = {}
  for i = 1, n do
    t[i] = random(n)
  end
  return t
end

-- Small functions, with any arguments.
local cheap = { { "insert", 3 }, { "remove", 2 }, { "concat", 4 }, { "unpack", 3 } }
for _ = 1, 3000 do
  local name, count = table.unpack(cheap[random(#cheap)])
  local t = list(8)
  local handed = random(3) == 1 and proxy(t) or random(12) == 1 and value() or t
  local arguments = table.pack(handed)
  for k = 2, random(count + 1) do
    local v = value()
    arguments[k], arguments.n = random(2) == 1 and v or random(8) - 2, k
    if type(arguments[k]) == "number" and name == "unpack" and math.abs(arguments[k]) > 1000 then
      arguments[k] = 5
    end
  end
  record(name, pcall(table[name], table.unpack(arguments, 1, arguments.n)))
  record(name, t)
end
for _ = 1, 500 do
  local a, b = list(12), list(6)
  local from, to = random(2) == 1 and proxy(a) or a, random(2) == 1 and proxy(b) or b
  try("move", table.move, from, random(10) - 3, random(14) - 2, random(12) - 3, random(2) == 1 and to or nil)
  record("move", a, b)
end
try("move", table.move, {}, 1, math.maxinteger, 2)
try("move", table.move, {}, math.mininteger, math.maxinteger, 2)
try("move", table.move, {}, -5, math.maxinteger, 2)
try("move", table.move, 1, 1, 2, 2)
try("move", table.move, {}, 1, 2, 2, 1)
try("move", table.move, proxy {}, 1, math.maxinteger, 2)

-- Sorting.
for _ = 1, 200 do
  local n = random(200)
  local t, u = numbers(n), numbers(n)
  table.sort(t)
  table.sort(u, function(a, b) return a > b end)
  record("sort", t, u)
  local s = {}
  for k = 1, n do
    s[k] = tostring(random(n))
  end
  table.sort(s)
  local real = numbers(n)
  table.sort(proxy(real))
  record("sort", s, real)
  local boxes = {}
  for k = 1, n do
    boxes[k] = setmetatable({ random(n) }, { __lt = function(a, b) return a[1] < b[1] end })
  end
  table.sort(boxes)
  for k = 1, n do
    boxes[k] = boxes[k][1]
  end
  record("sort", boxes)
end
local large = numbers(20000)
table.sort(large)
record("sort", large)
large = numbers(20000)
table.sort(large, function(a, b) return a > b end)
record("sort", large)
try("sort", table.sort, { 1, {} })
try("sort", table.sort, { {}, {} })
try("sort", table.sort, { "x", 2, 3 })
try("sort", table.sort, { true, false })
try("sort", table.sort, { 1, 2 }, 5)
try("sort", table.sort, { 1 }, 5)
try("sort", table.sort, proxy { 1, 2 }, 5)
try("sort", table.sort, 5)
try("sort", table.sort, { 1, 2, 3 }, function() error("from the comparison", 0) end)
try("sort", table.sort, setmetatable({}, { __len = function() return 1e15 end }))
try("sort", table.sort, setmetatable({}, { __len = function() return "x" end }))
try("sort", table.sort, setmetatable({}, { __len = function() return 2.5 end }))

-- Large arguments.
local many = {}
for i = 1, 100000 do
  many[i] = i
end
record("concat", table.concat(many, ","), table.concat(many, ", ", 3, 70000), table.concat(many, "", 99999, 100000))
record("concat", table.concat(proxy(many), ";"))
many[50000] = {}
try("concat", table.concat, many)
try("concat", table.concat, proxy(many), ",", 40000)
try("concat", table.concat, { 1, 2 }, ",", 1, 3)
try("concat", table.concat, { 1, 2 }, ",", -3, 1)
try("concat", table.concat, {}, ",", math.maxinteger, math.maxinteger)
try("concat", table.concat, { [math.maxinteger] = "last" }, ",", math.maxinteger, math.maxinteger)
many[50000] = 50000
table.insert(many, 1, "first")
record("insert", #many, many[1], many[2], many[50000], many[100001])
table.insert(many, 3, "third")
record("remove", table.remove(many, 3), table.remove(many, 1), #many, many[1], many[100000], many[100001])
record("move", #table.move(many, 1, 100000, 2), many[2], many[100001])
record("move", #table.move(many, 2, 100001, 1), many[1], many[100000], many[100001])
record("move", #table.move(many, 1, 100000, 1, {}))
record("unpack", select("#", table.unpack(many, 1, 65536)))

-- Strings.
for _ = 1, 300 do
  try("rep", string.rep, ("abc"):sub(1, random(4) - 1), random(6) - 2, random(2) == 1 and "--" or nil)
  try("rep", string.rep, value(), random(5))
  try("rep", string.rep, "x", random(2) == 1 and value() or 3)
  try("byte", string.byte, "some text", random(24) - 12, random(24) - 12)
  try("codepoint", utf8.codepoint, "söme téxt", random(24) - 12, random(24) - 12)
  try("len", utf8.len, "söme téxt", random(24) - 12, random(24) - 12)
  try("format", string.format, ("%s %d %5.2f %q %% %x %c %g %i %10s %-5s|%.3s"):sub(1, random(50)), value(), value(), value(),
    value(), value(), value(), value())
  try("tostring", tostring, random(200) / 8)
  try("upper", string.upper, value())
end
record("rep", ("ab"):rep(100000, ","), ("x"):rep(100001), (""):rep(5), (""):rep(3, "-"), ("xyz"):rep(40000))
record("upper", ("aBc"):rep(200000):upper(), ("aBc"):rep(200000):lower(), ("abc"):rep(200001):reverse())
record("utf8", utf8.len(("aé€😀"):rep(100000)), utf8.len(("aé€😀"):rep(100000) .. "\x80"), utf8.len(("\x80"):rep(300000)))
record("utf8", utf8.len(("é"):rep(200000), 2), utf8.len(("é"):rep(200000), 3, 262145), utf8.len(("é"):rep(200000), -4))
for _ = 1, 50 do
  local text = ("é"):rep(140000 + random(9)) .. ("\xC3"):rep(random(2) - 1) .. ("x"):rep(random(9))
  record("utf8", utf8.len(text, 2 * random(9) - 1), utf8.len(text, 1, random(3) - 4))
end
try("rep", string.rep, "x", 1e10)
try("rep", string.rep, "x", math.maxinteger, "yy")
record("char", #string.char(table.unpack(numbers(255), 1, 255)), #utf8.char(table.unpack(numbers(5000), 1, 5000)))
record("byte", string.byte(("x"):rep(100)), select("#", string.byte(("x"):rep(65536), 1, -1)))
local described = setmetatable({}, { __tostring = function() return "described" end, __name = "My.type" })
record("format", string.format("%s|%12s|%.4s", described, described, described), tostring(described))
record("format", string.format(("%d,"):rep(2000), table.unpack(numbers(2000))))
record("format", string.format("%s", ("x"):rep(300000)), string.format(("y"):rep(300000) .. "%s%%", described))
try("format", string.format, "%s")
try("format", string.format, "%y", 1)
try("format", string.format, "%")
try("format", string.format, "%d", described)
try("format", string.format, "%s", setmetatable({}, { __tostring = function() return {} end }))
try("format", string.format, "%s", setmetatable({}, { __tostring = function() return 12 end }))
try("tostring", tostring, setmetatable({}, { __tostring = function() return {} end }))
try("tostring", tostring)
record("tostring", (tostring(setmetatable({}, { __name = "My.type" })):gsub("0x%x+", "")))
record("pack", string.pack("<i4 s2 z", 5, "ab", "cd"), string.packsize("i4 i8"), string.unpack("<i2", "ab"))
try("pack", string.pack, "i17", 1)
try("pack", string.pack, "c2", "abc")
record("pack", string.pack("c10", "abc"))
try("unpack", string.unpack, "z", "abc")

-- Iterating.
for i, v in ipairs({ 1, 2, nil, 4 }) do
  record("ipairs", i, v)
end
for i, v in ipairs(proxy { "a", "b" }) do
  record("ipairs", i, v)
end
try("ipairs", ipairs)
try("ipairs", function() for _ in ipairs(nil) do end end) -- luacheck: ignore
try("rawset", rawset, {}, 1, 2)
try("rawset", rawset, 1, 2, 3)
try("rawset", rawset, proxy {}, 1, 3)
try("setmetatable", setmetatable, {}, 1)
try("setmetatable", setmetatable, setmetatable({}, { __metatable = 1 }), {})
try("setmetatable", setmetatable, 1, {})
try("collectgarbage", collectgarbage, "nothing")
record("collectgarbage", math.type(collectgarbage("count")), type(collectgarbage("step")), type(collectgarbage("step", 5)))

-- load
record("load", load("return 1 + 1")(), load("x =", "=name"))
record("load", load("return ...", "n", "t", {})(7), load("return x", "n", "bt", { x = 3 })(), load("", nil, "b"))
record("load", load("\27Lua", "=b", "t"))
local pieces = { "return ", "4", "2", nil }
local at = 0
record("load", load(function() at = at + 1 return pieces[at] end)())
try("load", load)
try("load", load, {})
record("load", load(function() return true end) == nil, pcall(load("error('here')", "@file.lua")))
record("load", load(12, "=n"))

-- The position in an error, and the function's name there.
local f = table.insert
try("place", function() table.insert(proxy {}, 5, 1) end)
try("place", function() f(proxy {}, 5, 1) end)
try("place", function() table.insert({}, 5, 1) end)
try("place", function() table.remove(proxy { 1 }, 5) end)
try("place", function() table.insert(proxy {}, 1, 2, 3) end)
try("place", function() return (table.concat({ {} })) end)
try("place", function() return (table.concat(proxy { {} })) end)
try("place", function() return (("x"):rep({})) end)
try("place", function() return (("x"):rep(1e10)) end)
try("place", function() return (("%d"):format("x")) end)
try("place", function() return (string.format("%s", setmetatable({}, { __tostring = function() end }))) end)
try("place", function() return (table.unpack(proxy {}, 1, 1e9)) end)
try("place", function() table.sort(setmetatable({}, { __len = function() return {} end })) end)
try("date", os.date, "%Ez")
try("date", os.date, "%")
record("date", os.date("!%Y-%m-%d", 0), os.time { year = 2000, month = 1, day = 1, hour = 12 } > 0)
return table.concat(lines, "\n")
