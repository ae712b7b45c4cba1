-- A function that passes on twice the arguments it got.
-- expect: error .
local function twice(...)
  local t = table.pack(...)
  table.move(t, 1, t.n, t.n + 1)
  return twice(table.unpack(t, 1, 2 * t.n))
end
twice(1)
