-- Binary chunks, by every way in: a string, a reader, the modes b and bt, a first byte alone.
-- expect: ok
local header = "\27Lua\x54\0\x19\x93\r\n\x1a\n\4\8\8"
for _, mode in ipairs { "b", "bt", "tb", "t", "x", "" } do
  assert(not load(header, "chunk", mode))
  assert(not load("\27", "chunk", mode))
end
assert(not load(header))
local pieces = { "\27", "Lua", "\x54\0" }
assert(not load(function() return table.remove(pieces, 1) end))
assert(not load(function() return table.remove(pieces, 1) end, "chunk", "b"))
