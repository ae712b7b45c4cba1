-- The store of weak-newindex by table.move: no Lua runs between the growth and the limit.
-- bug: as weak-newindex
-- stock: crashes under a memory limit
-- expect: error .
local weak, source = { __mode = "v" }, {}
for i = 1, 1 << 18 do source[i] = i end
while true do
  local mt = setmetatable({}, weak)
  local t = setmetatable({}, mt)
  mt.__newindex = {}
  for i = 0, 15 do pcall(table.move, source, 1, 1 << 18, i << 18, t) end
end
