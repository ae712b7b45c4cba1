-- table.sort.

local function numbers(n, seed)
  local t, x = {}, seed or 42
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    t[i] = x % 1000
  end
  return t
end

local function sorted(t, lt)
  lt = lt or function(a, b) return a < b end
  for i = 2, #t do if lt(t[i], t[i - 1]) then return false end end
  return true
end

check("numbers", function()
  local t = numbers(100)
  table.sort(t)
  return sorted(t), #t, t[1], t[100]
end)

check("the other way", function()
  local t = numbers(50)
  table.sort(t, function(a, b) return a > b end)
  return table.concat(t, " ")
end)

check("strings", function()
  local t = { "pear", "apple", "fig", "", "Fig", "apple2", "10", "9" }
  table.sort(t)
  return t
end)

check("mixed numbers", function()
  local t = { 3, 1.5, -2, 2^53, -0.0, 1e100, -math.huge, 7 // 1 }
  table.sort(t)
  return t
end)

check("small ones", function()
  local a, b, c, d = {}, { 1 }, { 2, 1 }, { 3, 1, 2 }
  table.sort(a) table.sort(b) table.sort(c) table.sort(d)
  return a, b, c, d
end)

check("already sorted, reversed, all equal", function()
  local a, b, c = {}, {}, {}
  for i = 1, 100 do a[i] = i b[i] = 101 - i c[i] = 7 end
  table.sort(a) table.sort(b) table.sort(c)
  return sorted(a), sorted(b), sorted(c), b[1], c[50]
end)

check("what cannot be compared", function()
  return { pcall(table.sort, { 1, "x" }) }, { pcall(table.sort, { {}, {} }) }, { pcall(table.sort, { 1, nil, 3, n = 3 }) == nil }, { pcall(table.sort, { true, false }) }
end)

check("with holes", function()
  return pcall(table.sort, { 3, nil, 1, 2 }, function(a, b) return a < b end)
end)

check("wrong arguments", function()
  return { pcall(table.sort) }, { pcall(table.sort, 1) }, { pcall(table.sort, { 2, 1 }, 5) }, { pcall(table.sort, { 1 }, 5) }, { pcall(table.sort, {}, {}) }
end)

check("an error in the comparison", function()
  local t = { 3, 2, 1 }
  return pcall(table.sort, t, function() error("compare", 0) end)
end)

check("an error value in the comparison", function()
  local e = {}
  return select(2, pcall(table.sort, { 2, 1 }, function() error(e) end)) == e
end)

check("__lt", function()
  local mt = {}
  mt.__lt = function(a, b) return a.v < b.v end
  local t = {}
  for i, v in ipairs(numbers(30, 7)) do t[i] = setmetatable({ v = v }, mt) end
  table.sort(t)
  local list = {}
  for i, o in ipairs(t) do list[i] = o.v end
  return sorted(list), list
end)

check("a comparison that is never true", function()
  local t = { 5, 3, 8, 1 }
  table.sort(t, function() return false end)
  local sum = 0
  for _, v in ipairs(t) do sum = sum + v end
  return #t, sum
end)

check("a comparison that is always true, few elements", function()
  local t = { 1, 2 }
  local ok = pcall(table.sort, t, function() return true end)
  return ok, #t
end)

check("a comparison that is always true, many elements", function()
  local t = numbers(50)
  return pcall(table.sort, t, function() return true end)
end)

check("NaN", function()
  local t = { 3, 0 / 0, 1, 0 / 0, 2 }
  local ok = pcall(table.sort, t)
  return ok, #t
end)

check("by key", function()
  local t = {}
  for i, v in ipairs(numbers(40, 3)) do t[i] = { key = v, at = i } end
  table.sort(t, function(a, b) if a.key ~= b.key then return a.key < b.key end return a.at < b.at end)
  local list = {}
  for i, o in ipairs(t) do list[i] = o.key .. "@" .. o.at end
  return table.concat(list, " ")
end)

check("a comparison that burns", function()
  local t = numbers(30, 11)
  table.sort(t, function(a, b) burn(100) return a < b end)
  return sorted(t)
end, 40)

check("sorting in sorting", function()
  local t = { { 3, 1 }, { 2, 9, 4 }, { 5 } }
  table.sort(t, function(a, b) table.sort(a) table.sort(b) return a[1] < b[1] end)
  return t
end)

check("a comparison that changes the table", function()
  local t = { 5, 4, 3, 2, 1 }
  local ok = pcall(table.sort, t, function(a, b) t[6] = nil return a < b end)
  return ok, t
end)

check("a thousand", function()
  local t = numbers(1000, 99)
  table.sort(t)
  return sorted(t)
end, 20)

check("unicode by bytes", function()
  local t = { "ö", "z", "a", "é", "Z", "日本" }
  table.sort(t)
  return t
end)
