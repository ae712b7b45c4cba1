-- untrusted: stacks have a lower limit there, with another message, and nesting in C is bounded
-- deep: each slice that ends goes through all frames, so short ones would last for minutes
-- Stacks that overflow, Lua's and C's.

local create, resume = coroutine.create, coroutine.resume

check("stack overflow", function()
  local function f() return 1 + f() end
  local ok, err = pcall(f)
  return ok, (err:gsub("\n.*", ""):gsub("%(message truncated%)", ""))
end, 1)

check("stack overflow is caught, again and again", function()
  local function f() return 1 + f() end
  local n = 0
  for _ = 1, 2 do if not pcall(f) then n = n + 1 end end
  return n
end, 1)

check("stack overflow in a handler's stack", function()
  local function f() return 1 + f() end
  local ok, err = xpcall(f, function(m) return "H " .. m:sub(1, 30) end)
  return ok, err
end, 1)

check("C stack overflow by nested calls of pcall", function()
  local n = 0
  local function f() n = n + 1 local ok, e = pcall(f) if not ok then error(e, 0) end end
  local ok, err = pcall(f)
  return ok, (tostring(err):gsub("^.*:%d+: ", ""):gsub("\n.*", "")), n > 150
end, 1)

check("C stack overflow by gsub", function()
  local n = 0
  local function f() n = n + 1 return (("x"):gsub("x", f)) end
  local ok, err = pcall(f)
  return ok, (tostring(err):gsub("^.*:%d+: ", ""):gsub("\n.*", "")), n > 150
end, 1)

check("C stack overflow by metamethods", function()
  local t = setmetatable({}, {})
  getmetatable(t).__index = function(s, k) return s[k .. "x"] end
  local ok, err = pcall(function() return t.a end)
  return ok, (tostring(err):gsub("^.-:%d+: ", ""):gsub("\n.*", ""))
end, 1)

check("stack overflow closes all", function()
  local opened, closed = 0, 0
  local closer = setmetatable({}, { __close = function() closed = closed + 1 end })
  local function f()
    local a <close> = closer
    opened = opened + 1
    f()
  end
  local ok, err = pcall(f)
  return ok, (err:gsub("^.*:%d+: ", ""):gsub(" %(.*", ""):gsub("\n.*", "")), opened == closed
end, 1)

check("stack overflow in a coroutine", function()
  local function deep(n) return 1 + deep(n + 1) end
  local ok, err = resume(create(deep), 1)
  return ok, (err:gsub("\n.*", ""))
end, 1)
