-- os.time with fields that overflow, are fractions, or come from metamethods.
-- expect: ok
if os and os.time then
  for _, v in ipairs { math.mininteger, math.maxinteger, 1 << 40, 1.5, "x", {}, "99999999999999999999" } do
    pcall(os.time, { year = v, month = 1, day = 1 })
    pcall(os.time, { year = 2000, month = v, day = v, hour = v, min = v, sec = v })
  end
  pcall(os.time, setmetatable({}, { __index = function(_, k) return #k end }))
end
