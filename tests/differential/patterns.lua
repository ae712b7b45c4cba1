-- find, match, gmatch, gsub.

check("find", function()
  local s = "hello world"
  return { s:find("o") }, { s:find("o", 6) }, { s:find("(o)(r)") }, { s:find("xyz") }, { s:find("") }, { s:find("", 20) }, { s:find("", 12) },
    { s:find("l+") }, { s:find(".", 1, true) }, { s:find("o w", 1, true) }, { s:find("o", -3) }, { s:find("^h") }, { s:find("^e") }, { s:find("d$") },
    { ("a.b"):find(".", 2, true) }, { ("a\0b"):find("\0") }, { s:find("l", -100) }
end)

check("match", function()
  return { ("key = value"):match("(%w+)%s*=%s*(%w+)") }, ("  trim  "):match("^%s*(.-)%s*$"), ("2024-01-15"):match("(%d+)-(%d+)-(%d+)"),
    ("abc"):match("()b()"), ("[[x]]"):match("%[%[(.-)%]%]"), ("abc"):match("^(a)(b)?(c)$"), ("abc"):match(".-"), ("x"):match("y*"), ("f(a(b)c)d"):match("%b()"),
    ("THE (quick) fox"):find("%((%a+)%)"), ("hello"):match("(h)(e)(l)(l)(o)"), ("abc"):match("b", 3), ("aXb"):match("%u"), ("0x1F"):match("^0[xX](%x+)$")
end)

check("classes", function()
  local r = {}
  for _, class in ipairs { "%a", "%c", "%d", "%g", "%l", "%p", "%s", "%u", "%w", "%x", "%A", "%D", "%S", "[a-c]", "[^a-c]", "[%d_]", "[%]]", "[a%-z]", "[]]", "[^]]", "." } do
    local n = 0
    for i = 0, 127 do if string.char(i):find("^" .. class .. "$") then n = n + 1 end end
    r[class] = n
  end
  return r
end, 10)

check("quantifiers", function()
  return ("aaa"):match("a*"), ("aaa"):match("a+"), ("aaa"):match("a-"), ("aaa"):match("a?"), ("aaab"):match("a-b"), ("aaab"):match("^a-$"), ("<a><b>"):match("<.->"),
    ("<a><b>"):match("<.*>"), ("ab"):match("a?b"), ("b"):match("a?b"), ("a*b"):match("a%*b")
end)

check("balance and frontier", function()
  return ("x = (a + (b * c)) - d"):match("%b()"), ("((x)"):match("%b()"), ("THE (quick) fox"):gsub("%f[%a]%a+", "W"), ("hello world"):find("%f[w]"),
    ("abc"):find("%f[%z]"), ("[a]"):match("%f[%a]%a"), ("if x then end"):gsub("%f[%w]end%f[%W]", "END")
end)

check("back references", function()
  return ("abab"):match("(ab)%1"), ("say 'it' \"now\""):match("(['\"])(.-)%1"), ("xx"):match("(.)%1"), { pcall(string.match, "x", "%1") }, { pcall(string.match, "xx", "(x)%2") }
end)

check("wrong patterns", function()
  local r = {}
  for i, p in ipairs { "%", "[", "[a", "[]", "[^]", "[%", "(", ")", "(()", "%b", "%bx", "%f", "%fa", "(x", "x)", "[a-", "%g(", ("(x)"):rep(33), "[[:alpha:]]" } do
    r[i] = { pcall(string.find, "x", p) }
  end
  return r
end)

check("gmatch", function()
  local r = {}
  for w in ("one two  three"):gmatch("%a+") do r[#r + 1] = w end
  for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do r[#r + 1] = k .. v end
  for p in ("abc"):gmatch("()") do r[#r + 1] = p end
  for m in ("abc"):gmatch("") do r[#r + 1] = "[" .. m .. "]" end
  for m in ("xaxa"):gmatch("a", 3) do r[#r + 1] = m end
  for m in ("aaa"):gmatch("^a") do r[#r + 1] = m end
  for m in ("abc"):gmatch("b", -2) do r[#r + 1] = m end
  return r
end)

check("gmatch as a function", function()
  local f = ("a b"):gmatch("%a")
  return f(), f(), f(), f(), { pcall(f) }
end)

check("gmatch that is left and goes on", function()
  local f, r = ("1 2 3 4"):gmatch("%d"), {}
  for d in f do r[#r + 1] = d if d == "2" then break end end
  for d in f do r[#r + 1] = "again " .. d end
  return r
end)

check("gsub with strings", function()
  return ("hello"):gsub("l", "L"), ("hello"):gsub("l", "L", 1), ("abc"):gsub("", "-"), ("abc"):gsub("%w", "%0%0"), ("a b"):gsub("(%w) (%w)", "%2 %1"),
    ("x"):gsub("x", "%%"), ("abc"):gsub("b", "%0%1"), ("hello"):gsub("", ""), ("abc"):gsub(".", { a = 1, b = true, c = false }), ("x y"):gsub("%s+$", ""), ("abc"):gsub("^a", "x"),
    ("abc"):gsub("x*", "-"), ("abc"):gsub("b", "x", 0), ("abc"):gsub("b", "x", -1)
end)

check("gsub with tables and functions", function()
  local log = {}
  return ("$name is $age"):gsub("%$(%w+)", { name = "Bob", age = 42 }), ("abc"):gsub("%w", function(c) log[#log + 1] = c if c == "b" then return "[B]" end end), log,
    ("a1b2"):gsub("(%a)(%d)", function(a, d) return d .. a end), ("abc"):gsub("()", function(p) return p end), ("x"):gsub("x", function() return 1.5 end),
    ("x"):gsub("x", function() return false end), ("x"):gsub("x", function() return nil end), ("k"):gsub("k", setmetatable({}, { __index = function(_, k) return k .. k end }))
end)

check("gsub, wrong", function()
  return { pcall(string.gsub, "x", "x", "%2") }, { pcall(string.gsub, "x", "x", "%a") }, { pcall(string.gsub, "x", "x", function() return {} end) },
    { pcall(string.gsub, "x", "x", { x = {} }) }, { pcall(string.gsub, "x", "x", nil) }, { pcall(string.gsub, "x", "x") }, { pcall(string.gsub, "x", "x", "%") },
    { pcall(string.gsub, "x", "(", "") }, { pcall(string.gsub, {}, "x", "") }, { pcall(string.gsub, "x", "x", "y", "z") }
end)

check("gsub with errors in callbacks", function()
  local n = 0
  return { pcall(string.gsub, "abc", ".", function(c) n = n + 1 if c == "b" then error("at b", 0) end end) }, n,
    { pcall(string.gsub, "abc", ".", function() error({ 1 }) end) }, { pcall(string.gsub, "a", ".", setmetatable({}, { __index = function() error("index", 0) end })) }
end)

check("gsub inside of gsub", function()
  return (("a,b;c,d"):gsub("[^;]+", function(part) return "<" .. part:gsub("[^,]+", function(x) return x:upper() end) .. ">" end))
end)

check("gsub anchored", function()
  return ("aaa"):gsub("^a", "b"), ("hello\nhello"):gsub("^hello", "x"), ("a$"):gsub("$", "!"), ("a^b"):gsub("a^", "x")
end)

check("find with init beyond", function()
  return { ("abc"):find("c", 10) }, { ("abc"):find("", 4) }, { ("abc"):find("", 5) }, { ("abc"):find("a", -10) }, ("abc"):match("()", 4), ("abc"):match("()", 5)
end)

check("position captures", function()
  return ("hello"):find("()ll()"), ("abc"):match("()a()b()c()"), ("ab"):gsub("()", "%1")
end)

check("a tokenizer", function()
  local r, s, i = {}, "let x1 = 3.14 * (y + \"str\") -- end", 1
  while i <= #s do
    local a, b = s:find("^%s+", i)
    if a then i = b + 1 end
    local token
    for _, p in ipairs { "^%a%w*", "^%d+%.?%d*", "^%b\"\"", "^%-%-.*", "^%p" } do
      token = s:match(p, i)
      if token then break end
    end
    if not token then break end
    r[#r + 1] = token
    i = i + #token
  end
  return r
end)

check("csv and url", function()
  local function decode(s) return (s:gsub("+", " "):gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end)) end
  local function encode(s) return (s:gsub("[^%w]", function(c) return ("%%%02X"):format(c:byte()) end)) end
  local fields = {}
  for f in ("a,b,,d"):gmatch("([^,]*)") do fields[#fields + 1] = f end
  return decode("a+b%26c%3D1"), encode("x y&z/ü"), fields
end)

check("matching that burns", function()
  local s = ("ab"):rep(300)
  return { s:find("(a*)(b*)x") }, #s:match(".-$"), s:gsub("ab", "c", 50):sub(40, 60), { s:find(("a?"):rep(8) .. ("b"):rep(3)) }
end, 20)

check("gsub that burns", function()
  return (("abcdef"):rep(5):gsub("%w", function(c) burn(200) return c == "a" and "A" or nil end))
end, 40)

check("locale independent", function()
  return ("é"):match("%w+"), ("é"):upper(), ("ä"):find("[ä]"), ("\xff"):match("%a"), ("\xe9"):match("%w")
end)
