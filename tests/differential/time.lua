-- os.time, os.date, os.clock.

check("dates in UTC", function()
  return os.date("!%Y-%m-%d %H:%M:%S", 0), os.date("!%c", 86400), os.date("!%x %X %p", 1e9 // 1), os.date("!%a %A %b %B %d %j %U %w %y %%", 1234567890), os.date("!*t", 1234567890)
end)

check("local dates", function()
  return os.date("%Y-%m-%d %H:%M:%S %z", 1700000000), os.date("*t", 1700000000)
end)

check("there and back", function()
  local t = { year = 2024, month = 2, day = 29, hour = 13, min = 14, sec = 15 }
  local s = os.time(t)
  local back = os.date("*t", s)
  return back.year, back.month, back.day, back.hour, back.min, back.sec, t.yday, t.wday, t.isdst
end)

check("out of range is brought in", function()
  local t = { year = 2024, month = 14, day = -3, hour = 25, min = -1, sec = 3600 }
  os.time(t)
  return t
end)

check("noon is the default", function()
  return os.date("%H:%M:%S", os.time { year = 2020, month = 1, day = 1 })
end)

check("wrong tables", function()
  return { pcall(os.time, {}) }, { pcall(os.time, { year = 2020 }) }, { pcall(os.time, { year = 2020, month = "x", day = 1 }) }, { pcall(os.time, { year = 2020, month = 1.5, day = 1 }) }, { pcall(os.time, { year = 1 << 40, month = 1, day = 1 }) },
    { pcall(os.time, 5) }, { pcall(os.time, { year = "2020", month = "1", day = "2" }) }, { pcall(os.time, { year = math.maxinteger, month = 1, day = 1 }) }
end)

check("wrong formats", function()
  return { pcall(os.date, "%Ez", 0) }, { pcall(os.date, "%Q", 0) }, { pcall(os.date, "%", 0) }, { pcall(os.date, "%E", 0) }, os.date("!%Ey %Od", 0), { pcall(os.date, "*t", math.maxinteger) }, { pcall(os.date, "%Y", "x") }, { pcall(os.date, "%Y", 1.5) }
end)

check("a date far away", function() return os.date("!%Y", 1e12 // 1), os.date("!%Y-%m-%d", -86400 * 365) end)

check("long formats", function() return #os.date(("%Y"):rep(100), 0), os.date("", 0), os.date("plain", 0), os.date("!%H\0%M", 0) end)

check("difftime", function() return os.difftime(10, 5), math.type(os.difftime(10, 5)), { pcall(os.difftime) }, { pcall(os.difftime, "x", 1) }, os.difftime(5, 10) end)

check("now", function()
  local a = os.time()
  local b = os.time()
  return math.type(a), b >= a, os.date("*t").year >= 2024, math.abs(os.time(os.date("*t")) - a) <= 5
end)

check("clock", function()
  local a = os.clock()
  burn(1000)
  return math.type(a), os.clock() >= a
end)

check("isdst", function()
  local t = os.date("*t", 1700000000)
  return type(t.isdst), os.time(t) == 1700000000
end)
