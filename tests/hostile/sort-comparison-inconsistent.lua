-- A comparison that says yes to everything: sort may fail, but must not leave the array.
-- expect: ok
local t = {}
for i = 1, 1000 do t[i] = i end
pcall(table.sort, t, function() return true end)
local n = 0
for k, v in pairs(t) do
  assert(math.type(k) == "integer" and k >= 1 and k <= 1000 and v)
  n = n + 1
end
assert(n == 1000)
