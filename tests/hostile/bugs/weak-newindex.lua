-- Only a weak metatable holds the table behind __newindex, which grows without memory left.
-- bug: an emergency collection frees the table during the store (use after free); up to 5.4.7
-- stock: crashes under a memory limit; does nothing without one
-- expect: error .
-- Either the deadline or the memory limit ends it, without a crash.
local weak = { __mode = "v" }
while true do
  local mt = setmetatable({}, weak)
  local t = setmetatable({}, mt)
  mt.__newindex = {}
  pcall(function() for i = 1, 1 << 22 do t[i] = i end end)
end
