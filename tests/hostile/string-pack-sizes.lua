-- string.pack and unpack with sizes, alignments and positions that overflow.
-- expect: ok
for _, f in ipairs { "i17", "i0", "s17", "!17i8", "i99999999999999999999", "Xz", "!3Xi4" } do
  pcall(string.pack, f, 1)
  pcall(string.packsize, f)
end
assert(not pcall(string.pack, "c9223372036854775807", "x"))
assert(not pcall(string.unpack, "s8", "\xff\xff\xff\xff\xff\xff\xff\x7f"))
assert(not pcall(string.unpack, "s8", "\xff\xff\xff\xff\xff\xff\xff\xff"))
pcall(string.unpack, "i8", "12345678", math.mininteger)
assert(not pcall(string.unpack, "i8", "12345678", math.maxinteger))
assert(not pcall(string.unpack, "z", "no zero"))
