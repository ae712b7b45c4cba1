-- __len that is negative, a float, a string, no number at all or the greatest integer.
-- expect: ok
for _, n in ipairs { -1, math.mininteger, math.maxinteger, 1.5, "x", "7", {}, math.huge, 0 / 0 } do
  local t = setmetatable({}, { __len = function() return n end })
  pcall(table.insert, t, 1)
  pcall(table.remove, t)
  pcall(table.unpack, t)
  pcall(table.concat, t)
  pcall(table.sort, t)
end
