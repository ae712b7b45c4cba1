-- Binary chunks with wrong counts, which Lua does not check.
-- bug: loading a corrupted binary chunk can read and write anywhere; all releases
-- stock: refuses these headers; deeper corruption crashes
-- expect: ok
local head = "\27Lua\x54\0\x19\x93\r\n\x1a\n\4\8\8\x78\x56\0\0\0\0\0\0\0\0\0\0\0\x28\x77\x40"
for _, tail in ipairs { "", "\1", "\0\x80\x80\x80", "\0\x86@temp\x81\x81\1\0\2\x82", ("\xff"):rep(100) } do
  assert(load(head .. tail) == nil)
  assert(load(head .. tail, "x", "b") == nil)
  local pieces = { head:sub(1, 1), head:sub(2) .. tail }
  assert(load(function() return table.remove(pieces, 1) end) == nil)
end
