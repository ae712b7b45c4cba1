-- The same, but the metatable becomes weak after it has been set, so that setmetatable cannot see it.
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
