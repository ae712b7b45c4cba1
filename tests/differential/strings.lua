-- The string library, but for patterns and packing.

check("len, sub, byte, char", function()
  local s = "hello"
  return #s, s:sub(2, 3), s:sub(-3), s:sub(2), s:sub(0), s:sub(10), s:sub(-100, 2), s:sub(3, 2), s:sub(math.mininteger, math.maxinteger),
    { s:byte(1, -1) }, { s:byte(10) }, s:byte(), string.char(), string.char(104, 105, 0), { s:byte(-1) }, { (""):byte() }
end)

check("rep, reverse, upper, lower", function()
  return ("ab"):rep(3), ("ab"):rep(3, ","), ("ab"):rep(0), ("ab"):rep(-1), ("ab"):rep(1, "x"), ("abc"):reverse(), (""):reverse(),
    ("aBc1"):upper(), ("AbC1"):lower(), (""):rep(1000)
end)

check("format: integers", function()
  return ("%d %5d %-5d| %05d %+d %i"):format(1, 2, 3, 4, 5, 6), ("%x %X %#x %o %c%c"):format(255, 255, 255, 8, 65, 66), ("%d"):format(3.0),
    ("%.3d"):format(5), ("%d"):format("10"), ("%5.2s|"):format("abc"), ("%%"):format(), ("%d"):format(math.mininteger), ("%x"):format(-1)
end)

check("format: floats", function()
  return ("%f %.2f %10.3f %-10.1f|"):format(1.5, 2.345, 3.14159, 4), ("%e %.1e %E"):format(12345.678, 0.00012, 1),
    ("%g %g %g %.3g"):format(1e20, 0.1, 100000, 1234.5), ("%a"):format(1), ("%.14g"):format(0.1), ("%f %g"):format(math.huge, -math.huge),
    ("%5.1f"):format(-0.0), ("%.0f"):format(0.5), ("%.99f"):format(1 / 3), ("%s"):format(0 / 0):gsub("-", "")
end)

check("format: strings", function()
  return ("%s %s %s"):format("a", 1, 1.5), ("%10s|%-10s|"):format("r", "l"), ("%.2s"):format("abc"), ("%s"):format(nil), ("%s"):format(true),
    ("%s"):format(setmetatable({}, { __tostring = function() return "T" end })), ("%s%s"):format("a\0b", "c"), ("%20s"):format(("x"):rep(30))
end)

check("format: q", function()
  return ("%q"):format("a\nb\0c\"d\\e\r\t\1272"), ("%q"):format(10), ("%q"):format(1.5), ("%q"):format(math.mininteger), ("%q"):format(1 / 0),
    ("%q"):format(-1 / 0), ("%q"):format(0 / 0), ("%q"):format(true), ("%q"):format(nil), { pcall(string.format, "%q", {}) },
    { pcall(string.format, "%5q", "x") }, ("%q"):format("\0001\200")
end)

check("format: wrong", function()
  return { pcall(string.format, "%") }, { pcall(string.format, "%y", 1) }, { pcall(string.format, "%d") }, { pcall(string.format, "%0123d", 1) },
    { pcall(string.format, "%.123d", 1) }, { pcall(string.format, "%s") }, { pcall(string.format, "%d", {}) }, { pcall(string.format, "%c", "x") },
    { pcall(string.format, "%10q", "x") }, { pcall(string.format, "%#s", "x") }, { pcall(string.format, "%.3c", 65) },
    { pcall(string.format, "%d", "1.5") }, { pcall(string.format, "%p") }, { pcall(string.format) }, { pcall(string.format, {}) }
end)

check("format: p", function()
  return ("%p"):format(1), ("%p"):format({}):gsub("0x%x+", "PTR"), ("%p"):format(nil), ("%p"):format("s") == ("%p"):format("s")
end)

check("format: tostring of many", function()
  local n = 0
  local t = setmetatable({}, { __tostring = function() n = n + 1 return "T" .. n end })
  return ("%s-%s-%5s-%-5s|"):format(t, t, t, t), { pcall(string.format, "%s", setmetatable({}, { __tostring = function() return {} end })) },
    { pcall(string.format, "%s %d", t, "x") }
end)

check("format: many arguments", function()
  local list = {}
  for i = 1, 100 do list[i] = i end
  return #(("%d,"):rep(100):format(table.unpack(list)))
end)

check("format: long", function()
  return #(("%s"):format(("x"):rep(5000))), #(("%-99d|"):format(1)), #(("%5000s"):rep(1) and ("%99s"):format("x")), { pcall(string.format, "%100d", 1) }
end)

check("tostring and tonumber", function()
  return tostring(1), tostring(1.0), tostring(-0.0), tostring(1e15), tostring(1e16), tostring(1e100), tostring(2^63), tostring(0.1), tostring(1/3),
    tonumber("10"), tonumber("0x1p4"), tonumber("1e1"), tonumber(" 5 "), tonumber("5x"), tonumber(""), tonumber(" "), tonumber("0x"), tonumber("1e"),
    tonumber("10", 2), tonumber("zz", 36), tonumber("8", 8), tonumber("-ff", 16), tonumber("1.5"), tonumber("1."), tonumber(".5"), tonumber("."),
    tonumber("0x.8"), tonumber("9223372036854775808"), tonumber("0xffffffffffffffffff"), tonumber("inf"), tonumber("nan"), tonumber(nil)
end)

check("tonumber of other things", function()
  return tonumber({}), tonumber(print), { pcall(tonumber) }, tonumber("1\0"), tonumber("١"), tonumber("1_000"), tonumber("0b1"), tonumber("1e+5"), tonumber("1e-5")
end)

check("concatenation", function()
  return 1 .. 2, 1.5 .. "x", "a" .. 1 .. 2.0, ("x"):rep(10) .. ("y"):rep(10), -1 .. "", 2^53 .. "", { pcall(function() return "a" .. nil end) },
    { pcall(function() return {} .. "x" end) }, { pcall(function() return "a" .. true end) }
end)

check("comparison of strings", function()
  return "a" < "b", "a" < "aa", "" < "", "a\0b" > "a\0a", "Z" < "a", "10" < "9", { pcall(function() return "a" < {} end) }
end)

check("strings as keys", function()
  local t, long = {}, ("x"):rep(100)
  t[long] = 1
  t["x"] = 2
  return t[("x"):rep(50) .. ("x"):rep(50)], t[("x"):rep(1)], t[long .. ""]
end)

check("indexing strings", function()
  local s = "abc"
  return s.len, s[1], s.x, ("x").rep == string.rep, { pcall(function() s.x = 1 end) }
end)

check("string escapes", function()
  return "\a\b\f\n\r\t\v\\\"\'\z
         end", "\u{7FFFFFFF}", "\x7f", #"\u{10FFFF}"
end)

check("long results in pieces", function()
  local parts = {}
  for i = 1, 500 do parts[#parts + 1] = ("%d:%s;"):format(i, ("ab"):rep(i % 5)) end
  local s = table.concat(parts)
  return #s, s:sub(1, 20), s:sub(-20), s:reverse():sub(1, 10), s:upper():sub(11, 20)
end, 50)

check("string.len and friends with numbers", function()
  return (5):type() == nil
end)
check("numbers have no methods", function() return pcall(function() return (5):rep(2) end) end)
check("library functions take numbers", function() return string.rep(5, 2), string.len(1.5), string.sub(12345, 2, 3), string.upper(1e15) end)

check("dump and load", function()
  local dump = string.dump
  if not dump then return "no dump" end
  local up = 5
  local function f(a) return a + (up or 100) end
  local g = load(dump(f), "d", "b")
  local h = load(dump(function(x) return x * 2 end, true), "d", "b")
  return h(21), { pcall(g, 1) }, { load(dump(h), "d", "t") }, { pcall(dump, print) }, { load("\27nonsense", "d") }
end)
