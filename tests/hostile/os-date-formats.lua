-- os.date with formats that do not exist, end early or are huge, and impossible times.
-- expect: ok
if os and os.date then
  for _, f in ipairs { "%", "%E", "%O", "%Ez", "%Q", "%\0", "%5", "*t%", ("%"):rep(1001) } do
    pcall(os.date, f)
    pcall(os.date, "!" .. f, 0)
  end
  for _, t in ipairs { math.mininteger, math.maxinteger, 1 << 60, -1 } do
    pcall(os.date, "*t", t)
    pcall(os.date, "!%c", t)
  end
  pcall(os.date, ("%c"):rep(50000))
end
