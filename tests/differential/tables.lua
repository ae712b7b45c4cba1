-- The table library, traversal, and lengths.

check("insert and remove", function()
  local t = { 1, 2, 3 }
  table.insert(t, 4)
  table.insert(t, 1, 0)
  table.insert(t, #t + 1, "end")
  local a, b, c = table.remove(t), table.remove(t, 1), table.remove(t, 2)
  return t, a, b, c, table.remove({}), table.remove({}, 0), { pcall(table.remove, { 1 }, 5) }, table.remove({ 1 }, 2), #t, table.remove({ n = 1 }, 0)
end)

check("insert, wrong", function()
  return { pcall(table.insert, { 1 }, 0, 1) }, { pcall(table.insert, { 1 }, 3, 1) }, { pcall(table.insert, 1, 2) }, { pcall(table.insert, {}) }, { pcall(table.insert, {}, "x", 1) },
    { pcall(table.insert, {}, 1, 2, 3) }, { pcall(table.insert, nil, 1) }, { pcall(table.insert, {}, 1.5, 1) }, { pcall(table.insert, { 1 }, -1, 1) }
end)

check("concat", function()
  return table.concat {}, table.concat({ 1, 2, 3 }), table.concat({ 1, 2, 3 }, ", "), table.concat({ 1, 2, 3 }, ",", 2), table.concat({ 1, 2, 3 }, ",", 2, 2), table.concat({ 1, 2, 3 }, ",", 3, 2),
    table.concat({ "a", 1, 2.5 }), { pcall(table.concat, { 1, {}, 3 }) }, { pcall(table.concat, { 1, nil, 3 }, "", 1, 3) }, { pcall(table.concat, { true }) }, { pcall(table.concat, {}, {}) },
    table.concat({ [5] = "x" }, "", 5, 5), { pcall(table.concat, { 1 }, "", 1, 2) }
end)

check("concat at the ends of integers", function()
  return table.concat({ [math.maxinteger] = "last" }, "-", math.maxinteger, math.maxinteger),
    table.concat({ [math.mininteger] = "first" }, "-", math.mininteger, math.mininteger), table.concat({}, "x", math.maxinteger, math.maxinteger - 1)
end)

check("unpack and pack", function()
  return { table.unpack { 1, 2, 3 } }, { table.unpack({ 1, 2, 3 }, 2) }, { table.unpack({ 1, 2, 3 }, 2, 3) }, select("#", table.unpack({}, 1, 3)), table.pack(1, nil, 3), table.pack(),
    { table.unpack({ [0] = "z" }, 0, 0) }, { pcall(table.unpack, {}, 1, 1e8) }, { pcall(table.unpack, {}, math.mininteger, math.maxinteger) },
    select("#", table.unpack({}, math.maxinteger, math.maxinteger)), { pcall(table.unpack) }, select("#", table.unpack({}, 3, 1))
end)

check("move", function()
  return table.move({ 1, 2, 3 }, 1, 3, 2), table.move({ 1, 2, 3 }, 2, 3, 1), table.move({ 1, 2 }, 1, 2, 3, { "a", "b" }), table.move({}, 1, 0, 5), { pcall(table.move, {}, 1, math.maxinteger, 2) },
    { pcall(table.move, {}, math.mininteger, math.maxinteger, 1) }, { pcall(table.move, 1, 1, 1, 1) }, { pcall(table.move, {}, 1, 2) }, { pcall(table.move, {}, 1, 2, math.maxinteger) }
end)

check("move with metamethods", function()
  local log = {}
  local src = setmetatable({}, { __index = function(_, i) log[#log + 1] = "get " .. i return i * 10 end })
  local dst = setmetatable({}, { __newindex = function(t, k, v) log[#log + 1] = "set " .. k rawset(t, k, v) end })
  return table.move(src, 1, 3, 5, dst), log
end)

check("functions respect metamethods", function()
  local real = { 1, 2, 3 }
  local p = setmetatable({}, { __len = function() return #real end, __index = function(_, k) return real[k] end, __newindex = function(_, k, v) real[k] = v end })
  table.insert(p, 4)
  table.insert(p, 1, 0)
  local removed = table.remove(p, 2)
  table.sort(p, function(a, b) return a > b end)
  return real, removed, table.concat(p, ","), { table.unpack(p) }
end)

check("a length that is not a number", function()
  local t = setmetatable({}, { __len = function() return "x" end })
  local u = setmetatable({}, { __len = function() return 1.5 end })
  local v = setmetatable({}, { __len = function() return 2.0 end })
  return { pcall(table.insert, t, 1) }, { pcall(table.unpack, t) }, { pcall(table.concat, u) }, #v, { pcall(table.sort, t) }, { pcall(table.remove, u) }
end)

check("a length that is huge", function()
  local t = setmetatable({}, { __len = function() return math.maxinteger end })
  return { pcall(table.insert, t, 1) }, { pcall(table.sort, t) }, { pcall(table.unpack, t) }
end)

check("errors inside of metamethods", function()
  local t = setmetatable({}, { __index = function() error("get", 0) end, __len = function() return 3 end, __newindex = function() error("set", 0) end })
  return { pcall(table.concat, t) }, { pcall(table.insert, t, 1) }, { pcall(table.remove, t) }, { pcall(table.sort, t) }, { pcall(table.unpack, t) }, { pcall(table.move, t, 1, 2, 3) },
    { pcall(table.move, { 1 }, 1, 1, 1, t) }
end)

check("next", function()
  local t = { "a" }
  return { next({}) }, { next(t) }, { next(t, 1) }, { pcall(next, t, 2) }, { pcall(next, t, "x") }, { pcall(next) }, { pcall(next, 1) }, rawequal(next, (pairs({})))
end)

check("clearing during traversal", function()
  local t, n = {}, 0
  for i = 1, 100 do t[i] = i t["k" .. i] = i end
  for k in pairs(t) do t[k] = nil n = n + 1 end
  return n, next(t)
end)

check("changing values during traversal", function()
  local t, sum = { a = 1, b = 2, c = 3 }, 0
  for k, v in pairs(t) do t[k] = v * 10 end
  for _, v in pairs(t) do sum = sum + v end
  return sum
end)

check("adding during traversal", function()
  local ok, err = pcall(function()
    local t = { 1 }
    for k in pairs(t) do
      for i = 1, 100 do t["new" .. i] = k end
      t[k] = nil
      collectgarbage("step")
      break
    end
    return "left"
  end)
  return ok, err
end)

check("order of the array part", function()
  local t, list = { 10, 20, 30, nil, 50 }, {}
  for k, v in pairs(t) do list[#list + 1] = k .. "=" .. v end
  return list
end)

check("ipairs stops at nil", function()
  local n = 0
  for _ in ipairs { 1, 2, nil, 4 } do n = n + 1 end
  return n
end)

check("lengths", function()
  local t = {}
  for i = 1, 10 do t[i] = i end
  local a = #t
  t[10] = nil
  local b = #t
  for i = 9, 1, -1 do t[i] = nil end
  return a, b, #t, #{ 1, 2, 3, nil }, #{ n = 1 }, #{ nil }, #"", #{ [1] = 1, [2] = 2 }
end)

check("float keys", function()
  local t = {}
  t[1.0] = "a"
  t[2^53] = "b"
  t[1.5] = "c"
  t[-0.0] = "zero"
  return t[1], t[2^53 | 0], t[1.5], t[0], next({ [3.0] = 1 }), math.type(next({ [3.0] = 1 }))
end)

check("odd keys", function()
  local t, f = {}, function() end
  t[true] = 1 t[false] = 2 t[f] = 3 t[""] = 4 t[math.huge] = 5
  return t[true], t[false], t[f], t[""], t[1 / 0], { pcall(rawset, t, nil, 1) }, { pcall(rawset, t, 0 / 0, 1) }, rawget(t, nil), t[nil]
end)

check("growing and shrinking", function()
  local t, sum = {}, 0
  for i = 1, 500 do t[i] = i end
  for i = 1, 500, 2 do t[i] = nil end
  for _, v in pairs(t) do sum = sum + v end
  for i = 501, 600 do t[i] = i end
  for i = -50, 0 do t[i] = i end
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return sum, n
end, 30)

check("nested and cyclic", function()
  local t = {}
  t.t = t
  t.list = { t, { t } }
  return t.t.t.t == t, t.list[2][1] == t
end)

check("raw functions", function()
  local t = setmetatable({}, { __index = function() return "meta" end, __newindex = function() end, __len = function() return 9 end, __eq = function() return true end })
  rawset(t, 1, "raw")
  return rawget(t, 1), rawget(t, 2), rawlen(t), rawequal(t, {}), rawset(t, 2, 3) == t
end)

check("queues made of tables", function()
  local q = { first = 1, last = 0 }
  for i = 1, 200 do q.last = q.last + 1 q[q.last] = i end
  local sum = 0
  while q.first <= q.last do sum = sum + q[q.first] q[q.first] = nil q.first = q.first + 1 end
  return sum, next(q) ~= nil
end)

check("table functions that burn", function()
  local t = setmetatable({}, { __index = function(_, i) burn(200) if i <= 20 then return i end end, __len = function() burn(200) return 20 end })
  return table.concat(t, ","), select("#", table.unpack(t)), #table.move(t, 1, 20, 1, {})
end, 20)
