-- The utf8 library.

check("char", function()
  return utf8.char(), utf8.char(72, 228, 8364, 0x10FFFF), utf8.char(0), utf8.char(0x7FFFFFFF):byte(1, -1), { pcall(utf8.char, -1) }, { pcall(utf8.char, 0x80000000) }, { pcall(utf8.char, "x") }, utf8.charpattern
end)

check("codepoint", function()
  return { utf8.codepoint("häß€", 1, -1) }, utf8.codepoint("€"), { utf8.codepoint("", 1, 0) }, { pcall(utf8.codepoint, "abc", 4) }, { pcall(utf8.codepoint, "\xff") }, { pcall(utf8.codepoint, "ä", 2) },
    { pcall(utf8.codepoint, "\u{D7FF}") }, { pcall(utf8.codepoint, "\xed\xa0\x80") }, utf8.codepoint("\xed\xa0\x80", 1, 1, true), { pcall(utf8.codepoint, "\xf4\x90\x80\x80") }
end)

check("len", function()
  return utf8.len(""), utf8.len("abc"), utf8.len("häß€"), { utf8.len("ab\xff") }, { utf8.len("\xc3") }, utf8.len("äöü", 3), utf8.len("äöü", -2), { pcall(utf8.len, "abc", 5) }, { utf8.len("ä", 2) }, utf8.len("abc", 1, 2), utf8.len("abc", 4), { pcall(utf8.len, "abc", 1, 4) },
    { utf8.len("\xed\xa0\x80") }, utf8.len("\xed\xa0\x80", 1, -1, true), { utf8.len("\xc0\x80") }
end)

check("offset", function()
  local s = "aäb€c"
  return utf8.offset(s, 1), utf8.offset(s, 2), utf8.offset(s, 3), utf8.offset(s, 5), utf8.offset(s, 6), utf8.offset(s, 7), utf8.offset(s, -1), utf8.offset(s, -2), utf8.offset(s, -6), utf8.offset(s, 0, 3), { pcall(utf8.offset, s, 1, 3) },
    { pcall(utf8.offset, s, 1, 20) }, utf8.offset("", 1), utf8.offset("", 0), utf8.offset("abc", 2, 2)
end)

check("codes", function()
  local r = {}
  for p, c in utf8.codes("aä€") do r[#r + 1] = p .. ":" .. c end
  return r, { pcall(function() for _ in utf8.codes("a\xffb") do end end) }, { pcall(function() for _ in utf8.codes("\xe2\x82") do end end) }, { pcall(utf8.codes) }, { pcall(function() for _ in utf8.codes("\xed\xa0\x80") do end end) }
end)

check("codes, lax", function()
  local r = {}
  for p, c in utf8.codes("\xed\xa0\x80", true) do r[#r + 1] = p .. ":" .. c end
  return r
end)

check("the pattern", function()
  local r = {}
  for c in ("aä€\u{1F600}"):gmatch(utf8.charpattern) do r[#r + 1] = #c end
  return r
end)

check("there and back", function()
  local list = {}
  for i = 1, 60 do list[i] = (i * 7919) % 0xD000 + 32 end
  local s = utf8.char(table.unpack(list))
  local back, same = { utf8.codepoint(s, 1, -1) }, true
  for i = 1, 60 do same = same and back[i] == list[i] end
  return utf8.len(s), same, #s
end)

check("reversing text", function()
  local r = {}
  for _, c in utf8.codes("Grüße") do table.insert(r, 1, utf8.char(c)) end
  return table.concat(r)
end)

check("long text", function()
  local s = ("ä€x"):rep(500)
  local n = 0
  for _ in utf8.codes(s) do n = n + 1 end
  return utf8.len(s), n, utf8.offset(s, 1000), utf8.codepoint(s, utf8.offset(s, 1000))
end, 20)
