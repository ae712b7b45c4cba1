-- string.pack, packsize, unpack.

local pack, packsize, unpack = string.pack, string.packsize, string.unpack
local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

check("sizes of integers", function()
  local r = {}
  for i = 1, 16 do r[i] = hex(pack("<i" .. i, -2)) .. " " .. hex(pack(">I" .. i, 258 % (i == 1 and 256 or 65536))) end
  return r
end)

check("back again", function()
  local r = {}
  for _, f in ipairs { "b", "B", "h", "H", "i", "I", "l", "L", "j", "J", "T", "i3", "I5", "<i7", ">i7" } do
    r[f] = { unpack(f, pack(f, 100)) }
  end
  return r
end)

check("overflow", function()
  return { pcall(pack, "b", 128) }, { pcall(pack, "b", -129) }, { pcall(pack, "B", 256) }, { pcall(pack, "H", 65536) }, { pcall(pack, "i3", 1 << 23) },
    hex(pack("<J", -1)), hex(pack("<i16", -1)), { pcall(unpack, "<i9", ("\255"):rep(8) .. "\1") }, { pcall(pack, "I1", -1) }
end)

check("floats", function()
  return hex(pack("<d", 1.5)), hex(pack(">f", -2)), { unpack("<d", pack("<d", 0.1)) }, { unpack("f", pack("f", 0.5)) }, hex(pack("<n", 1)), { unpack("<d", pack("<d", math.huge)) }
end)

check("strings", function()
  return hex(pack("z", "abc")), hex(pack("s1", "abc")), hex(pack("<s2", "abc")), hex(pack("c5", "abc")), { unpack("z", "abc\0def") }, { unpack("s1", "\3abcdef") },
    { unpack("c3", "abcdef") }, { pcall(pack, "z", "a\0b") }, { pcall(pack, "s1", ("x"):rep(256)) }, { pcall(pack, "c2", "abc") }, { pcall(unpack, "z", "abc") },
    { pcall(unpack, "s1", "\5ab") }, { pcall(unpack, "c9", "ab") }
end)

check("alignment", function()
  return hex(pack("<!4 i1 i4", 1, 2)), hex(pack("<!8 b Xi8 i8", 1, 2)), packsize("<!4 i1 i4"), packsize("!8 b d"), hex(pack(">!2 i1 !4 i4", 1, 2)), { pcall(pack, "!3 i4", 1) },
    { pcall(pack, "!17 i4", 1) }, hex(pack("<i1 x i1", 1, 2)), { pcall(pack, "X", 1) }, { pcall(pack, "Xz") }, { pcall(pack, "!4 i3 Xi3", 1) }
end)

check("packsize", function()
  return packsize("i4"), packsize("<i1i2i3"), packsize(""), packsize("c10"), { pcall(packsize, "s") }, { pcall(packsize, "z") }, packsize("!1i4d"), { pcall(packsize, "c2147483647c2147483647") }
end)

check("unpack from a place", function()
  local s = pack("<i2i2i2", 1, 2, 3)
  return { unpack("<i2", s, 3) }, { unpack("<i2", s, -2) }, { unpack("", s, 7) }, { pcall(unpack, "<i2", s, 6) }, { pcall(unpack, "i1", s, 8) }, { pcall(unpack, "i1", s, -10) }
end)

check("wrong formats", function()
  return { pcall(pack, "y", 1) }, { pcall(pack, "i17", 1) }, { pcall(pack, "i0", 1) }, { pcall(pack, "c", "x") }, { pcall(pack, "i4") }, { pcall(pack, "i4", "x") }, { pcall(pack, "i4", 1.5) },
    { pcall(pack, "z", {}) }, { pcall(pack, "d", "x") }, { pcall(pack) }, { pcall(unpack, "i4") }, { pcall(unpack, "i4", "abc") }, hex(pack("i4", "7")), { pcall(pack, "s17", "") }
end)

check("many values", function()
  local list = {}
  for i = 1, 100 do list[i] = i end
  local s = pack(("i2"):rep(100), table.unpack(list))
  local r = { unpack(("i2"):rep(100), s) }
  return #s, #r, r[1], r[100], r[101]
end)

check("spaces and endianness in the middle", function()
  return hex(pack("< i2 > i2 = i1 < i4", 1, 2, 3, 4)), { unpack(" > i2 < i2 ", "\0\1\1\0") }
end)

check("records, packed in a loop", function()
  local out = {}
  for i = 1, 100 do out[i] = pack(">I2s1d", i, "name" .. i, i / 4) end
  local s, at, sum, names = table.concat(out), 1, 0, 0
  while at <= #s do
    local id, name, value
    id, name, value, at = unpack(">I2s1d", s, at)
    sum = sum + id * value
    names = names + #name
  end
  return #s, sum, names
end, 50)
