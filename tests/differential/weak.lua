-- What scripts that may not collect can see of collection: weak tables keep objects that are in
-- use.

check("what is held stays", function()
  local values, keys = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "k" })
  local held = { {}, {}, {} }
  for i, o in ipairs(held) do values[i] = o keys[o] = i end
  for _ = 1, 20 do collectgarbage "step" end
  local n = 0
  for i, o in ipairs(held) do if values[i] == o and keys[o] == i then n = n + 1 end end
  return n
end)

check("count is a number", function() return math.type(collectgarbage "count"), collectgarbage "count" > 0 end)

check("much garbage", function()
  local n = 0
  for i = 1, 3000 do
    local t = { i, tostring(i), function() return i end }
    n = n + t[3]()
  end
  return n
end, 20)

check("closures over loops of garbage", function()
  local kept = {}
  for i = 1, 500 do
    local x = { i }
    kept[i % 10 + 1] = function() return x[1] end
  end
  local sum = 0
  for _, f in ipairs(kept) do sum = sum + f() end
  return sum
end, 30)

check("strings come and go", function()
  local t = {}
  for i = 1, 2000 do t[i % 20 + 1] = ("s"):rep(i % 50) .. i end
  return table.concat(t, ","):sub(1, 40)
end, 30)

check("wrong options", function() return pcall(collectgarbage, "nonsense") end)
