-- The store of weak-newindex; the metatable becomes weak only after setmetatable has seen it.
-- bug: as weak-newindex
-- stock: crashes under a memory limit
-- expect: error .
local mode = {}
while true do
  local mt = setmetatable({}, mode)
  local t = setmetatable({}, mt)
  mt.__newindex = {}
  mode.__mode = "v"
  pcall(function() for i = 1, 1 << 22 do t[i] = i end end)
end
