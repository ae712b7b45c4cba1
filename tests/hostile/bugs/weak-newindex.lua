-- The table behind __newindex hangs on a weak metatable only, and grows when there is no memory left.
-- bug: an emergency collection frees the table in the middle of the store (use after free); up to 5.4.7
-- stock: crashes under a memory limit; does nothing without one
-- expect: error .
-- Out of memory or out of time, whichever comes first; and no crash.
local weak = { __mode = "v" }
while true do
  local mt = setmetatable({}, weak)
  local t = setmetatable({}, mt)
  mt.__newindex = {}
  pcall(function() for i = 1, 1 << 22 do t[i] = i end end)
end
