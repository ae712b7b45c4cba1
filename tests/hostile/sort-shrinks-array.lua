-- A comparison that empties the array while it is sorted.
-- expect: ok
local t = {}
for i = 1, 200 do t[i] = i end
pcall(table.sort, t, function(a, b)
  for i = 1, 200 do t[i] = nil end
  return (a or 0) < (b or 0)
end)
