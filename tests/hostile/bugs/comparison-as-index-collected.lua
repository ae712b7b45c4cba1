-- A stale register holds an object that an emergency collection, which keeps the stack, freed.
-- bug: as comparison-as-index
-- stock: no crash seen
-- expect: ok
local t = {}
local function f(a, hold)
  do
    local x = { [true] = 1, [false] = 1 }
    hold[1] = x[true]
  end
  pcall(table.unpack, hold, 1, 900000)
  pcall(table.move, hold, 1, 1, 1 << 40, {})
  local v = t[a < 1]
  return v
end
for _ = 1, 4 do pcall(f, 0, {}) end
