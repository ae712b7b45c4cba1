-- next with a key that the table does not have, and tables that change under the traversal.
-- expect: ok
assert(not pcall(next, {}, "no such key"))
assert(not pcall(next, { 1, 2 }, 0 / 0))
local t = {}
for i = 1, 100 do t["k" .. i] = i end
pcall(function()
  for k in pairs(t) do
    t[k] = nil
    for i = 1, 100 do t[k .. i] = i end
    collectgarbage("step")
    if not next(t) then break end
    for j in pairs(t) do t[j] = nil end
  end
end)
