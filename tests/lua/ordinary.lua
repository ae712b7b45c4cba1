-- Ordinary programs with every kind of instruction of Lua.  Interruptions must not change their
-- results.  Returns a list of { name, function }: each function returns a string, and needs nothing
-- but Lua.
local programs = {}

local function add(name, fn)
  programs[#programs + 1] = { name, fn }
end

add("arithmetic", function()
  local a, b, c = 1, 0.5, 0
  for i = 1, 20000 do
    a = (a * 31 + i) % 1000003
    b = b + a / (i + 1) - a // 7 * 0.001
    c = (c ~ (a << 3)) & 0xffffff | (i & 1)
  end
  return string.format("%d %.6f %d", a, b, c)
end)

add("recursion", function()
  local function fib(n)
    if n < 2 then
      return n
    end
    return fib(n - 1) + fib(n - 2)
  end
  local function even(n) if n == 0 then return true end return even(n - 2) end
  return fib(19) .. tostring(even(5000))
end)

add("strings", function()
  local parts = {}
  for i = 1, 1500 do
    parts[#parts + 1] = ("%d:%s"):format(i, ("x"):rep(i % 7)):upper()
  end
  local text = table.concat(parts, ",")
  local sum = 0
  for word in text:gmatch("%d+") do
    sum = sum + tonumber(word)
  end
  local swapped, count = text:gsub("(%d+):(X*)", function(n, x) return x .. n end)
  return sum .. " " .. count .. " " .. #swapped .. swapped:sub(1, 40)
end)

add("tables", function()
  local t, sum = {}, 0
  for i = 1, 900 do
    t[i] = (i * 7919) % 4001
    t["k" .. i % 97] = i
  end
  table.sort(t, function(a, b) return a > b end)
  for i = 1, #t, 3 do
    table.remove(t, 1)
    sum = sum + t[1] + i
    if sum % 5 == 0 then table.insert(t, 1, sum % 11) end
  end
  local keys = {}
  for k in pairs(t) do
    if type(k) == "string" then keys[#keys + 1] = k end
  end
  table.sort(keys)
  return sum .. #t .. table.concat(keys, ""):sub(1, 60)
end)

add("closures", function()
  local made = {}
  for i = 1, 2000 do
    local n = i
    made[i] = { function() n = n + 1 return n end, function(x) n = x end }
  end
  local sum = 0
  for i = 1, #made do
    made[i][1]()
    made[i][2](i % 13)
    sum = sum + made[i][1]()
  end
  return tostring(sum)
end)

add("metamethods", function()
  local V = {}
  V.__index = function(_, k) return rawget(V, k) or #k end
  V.__add = function(a, b) return setmetatable({ x = a.x + b.x }, V) end
  V.__eq = function(a, b) return a.x == b.x end
  V.__lt = function(a, b) return a.x < b.x end
  V.__le = function(a, b) return a.x <= b.x end
  V.__concat = function(a, b) return tostring(a) .. tostring(b) end
  V.__tostring = function(a) return "V" .. a.x end
  V.__len = function(a) return a.x end
  V.__call = function(a, y) return a.x * y end
  V.__unm = function(a) return setmetatable({ x = -a.x }, V) end
  V.__newindex = function(t, k, v) rawset(t, k, v + 1) end
  local s, yes = setmetatable({ x = 0 }, V), 0
  for i = 1, 1500 do
    local v = setmetatable({ x = i }, V)
    s = s + v
    if v < s then yes = yes + 1 end
    if v <= s and v ~= s then yes = yes + #v % 3 end
    v.fresh = i
    yes = yes + v.fresh + v.nothing + v(2) + (-v).x
  end
  return s .. ":" .. tostring(yes)
end)

add("coroutines", function()
  local function walk(n)
    if n > 0 then
      walk(n - 1)
      coroutine.yield(n)
      walk(n - 1)
    end
  end
  local sum, count = 0, 0
  for n in coroutine.wrap(function() walk(9) end) do
    sum, count = sum * 3 % 1000003 + n, count + 1
  end
  local outer = coroutine.create(function(a)
    local inner = coroutine.create(function(b)
      while true do
        for _ = 1, 20 do b = (b * 17 + 3) % 10007 end
        b = b + coroutine.yield(b)
      end
    end)
    while true do
      local _, r = coroutine.resume(inner, a)
      a = coroutine.yield(r)
    end
  end)
  for i = 1, 300 do
    local ok, r = coroutine.resume(outer, i)
    sum = (sum + r + (ok and 1 or 0)) % 1000003
  end
  return sum .. "/" .. count .. coroutine.status(outer) .. tostring(coroutine.close(outer))
end)

add("errors", function()
  local caught, handled = 0, 0
  local function fail(n)
    if n == 0 then error({ code = caught % 7 }) end
    return fail(n - 1)
  end
  for i = 1, 600 do
    local ok, err = pcall(fail, i % 5)
    caught = caught + (ok and 0 or 1 + err.code)
    ok, err = xpcall(function() return nil + i end, function(m) handled = handled + #m return m end)
    caught = caught + (ok and 0 or #err % 3)
  end
  return caught .. " " .. handled
end)

add("closing", function()
  local log = 0
  local function guard(n)
    return setmetatable({}, { __close = function(_, err) log = (log * 31 + n + (err and 1 or 0)) % 1000003 end })
  end
  for i = 1, 400 do
    pcall(function()
      local a <close> = guard(i)
      local b <close> = guard(i + 1)
      if i % 3 == 0 then error("x") end
      for _ in function(_, k) if k < 3 then return k + 1 end end, nil, 0, guard(i + 2) do
        if i % 5 == 0 then break end
      end
      return a, b
    end)
  end
  return tostring(log)
end)

add("varargs", function()
  local function pass(...) return select("#", ...), ... end
  local function collect(...)
    local t = { ... }
    local n = 0
    for i = 1, select("#", ...) do n = n + (t[i] or 0) end
    return n
  end
  local sum = 0
  for i = 1, 1500 do
    sum = sum + collect(pass(i, nil, i * 2, table.unpack({ 1, 2, 3 }, 1, i % 4)))
  end
  return tostring(sum)
end)

add("jumps", function()
  local primes, n = {}, 2
  ::again::
  for i = 1, #primes do
    if primes[i] * primes[i] > n then break end
    if n % primes[i] == 0 then goto next end
  end
  primes[#primes + 1] = n
  ::next::
  n = n + 1
  if n < 3000 then goto again end
  local i = 0
  repeat
    local j = i
    i = i + 1
    while j > 0 do j = j - 100 end
  until i >= 2000
  return #primes .. " " .. primes[#primes] .. " " .. i
end)

add("iterators", function()
  local t, sum = {}, 0
  for i = 1, 500 do t[i] = i * i % 101 end
  for i, v in ipairs(t) do sum = sum + i * v end
  for i = 500, 1, -7 do sum = sum - t[i] end
  for x = 0.5, 40, 0.25 do sum = sum + x end
  for k, v in next, t do sum = sum + k - v end
  local proxy = setmetatable({}, { __pairs = function() return function(_, k) k = (k or 0) + 1 if k < 200 then return k, t[k] end end end })
  for k, v in pairs(proxy) do sum = sum + k * v end
  return tostring(sum)
end)

add("loading", function()
  local sum = 0
  for i = 1, 60 do
    local f = load("local a, b = ... ; local t = {} ; for i = 1, 20 do t[i] = a * i + b end return #t + t[20] + " .. i)
    sum = sum + f(i, i + 1)
  end
  return tostring(sum)
end)

return programs
