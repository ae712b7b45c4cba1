-- untrusted: there is no debug.sethook
-- counted: where instructions are counted, no other hook can be set
-- Hooks: calls, returns, lines, counts.

local sethook, gethook, getinfo = debug.sethook, debug.gethook, debug.getinfo

check("lines", function()
  local lines = {}
  local function f()
    local a = 1
    local b = 2

    return a + b
  end
  local base = getinfo(f, "S").linedefined
  sethook(function(_, line) if line >= base and line < base + 6 then lines[#lines + 1] = line - base end end, "l")
  f()
  sethook()
  return lines
end)

check("lines of a loop", function()
  local lines = {}
  local base = getinfo(1, "l").currentline
  sethook(function(event, line) lines[#lines + 1] = event .. " " .. line - base end, "l")
  for i = 1, 2 do
    local _ = i
  end
  sethook()
  return lines
end)

check("lines of while and goto", function()
  local lines, n = {}, 0
  local base = getinfo(1, "l").currentline
  sethook(function(_, line) lines[#lines + 1] = line - base end, "l")
  while n < 2 do n = n + 1 end
  ::top::
  n = n + 1
  if n < 5 then goto top end
  sethook()
  return lines
end)

check("the first line after sethook", function()
  local missed = 0
  for _ = 1, 200 do
    local line
    sethook(function(_, l) line = line or l end, "l")
    local here = getinfo(1, "l").currentline sethook()
    if line ~= here then missed = missed + 1 end
  end
  return missed
end)

check("calls and returns", function()
  local log = {}
  local function g() return 1 end
  local function f() g() return g() end
  sethook(function(event)
    local info = getinfo(2, "nSt")
    if info.what == "Lua" and (info.name == "f" or info.name == "g" or event == "tail call") then
      log[#log + 1] = event .. " " .. tostring(info.name)
    end
  end, "cr")
  f()
  sethook()
  return log
end)

check("every call around sethook", function()
  local log = {}
  sethook(function(event) log[#log + 1] = event end, "cr")
  math.abs(1)
  sethook()
  return log
end)

check("what is seen in a call hook", function()
  local seen
  local function target(a, b) return a, b end
  sethook(function()
    if getinfo(2, "f").func == target then
      local name, value = debug.getlocal(2, 1)
      local info = getinfo(2, "nSlutr")
      seen = { name, value, info.nparams, info.what, info.istailcall, info.ftransfer, info.ntransfer }
    end
  end, "c")
  target(7, 8)
  sethook()
  return seen
end)

check("what a return hook sees", function()
  local seen = {}
  local function target(...) return ... end
  sethook(function()
    local info = getinfo(2, "fr")
    if info.func == target then
      for i = info.ftransfer, info.ftransfer + info.ntransfer - 1 do seen[#seen + 1] = select(2, debug.getlocal(2, i)) end
    end
  end, "r")
  target("a", "b", "c")
  sethook()
  return seen
end)

check("counts", function()
  local n = 0
  sethook(function() n = n + 1 end, "", 100)
  for _ = 1, 1000 do end
  sethook()
  return n
end)

check("counts of one", function()
  local n = 0
  sethook(function(event) n = n + (event == "count" and 1 or 1000) end, "", 1)
  local a = 1
  local b = a + 1
  sethook()
  return n, b
end)

check("gethook", function()
  local function hook() end
  sethook(hook, "crl", 50)
  local h, mask, count = gethook()
  sethook()
  return h == hook, mask, count, { gethook() }
end)

check("gethook of masks", function()
  local r = {}
  for _, mask in ipairs { "c", "r", "l", "cr", "rl", "x", "" } do
    sethook(function() end, mask)
    r[mask] = select(2, gethook())
    sethook()
  end
  return r
end)

check("a hook that fails", function()
  local r = table.pack(pcall(function()
    sethook(function() sethook() error("from the hook", 0) end, "l")
    local _ = 1
  end))
  sethook()
  return r
end)

check("a hook that fails by counting", function()
  local ok, err = pcall(function()
    sethook(function() sethook() error("too long", 0) end, "", 1000)
    while true do end
  end)
  sethook()
  return ok, err
end)

check("a hook that fails in a coroutine", function()
  local log = {}
  local co = coroutine.create(function()
    local x <close> = setmetatable({}, { __close = function(_, e) sethook() log[#log + 1] = e end })
    sethook(function() error("from the hook", 0) end, "", 100)
    while true do end
  end)
  local r = table.pack(coroutine.resume(co))
  return r, coroutine.status(co), log, { coroutine.close(co) }
end)

check("after a hook was set once, coroutines still fail properly", function()
  sethook(function() end, "l")
  sethook()
  gethook()
  local log = {}
  local co = coroutine.create(function()
    local x <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = e end })
    error("E", 0)
  end)
  return { coroutine.resume(co) }, coroutine.status(co), log, { coroutine.close(co) }
end)

check("coroutines have hooks of their own", function()
  local n = 0
  sethook(function() n = n + 1 end, "c")
  local co = coroutine.create(function() math.abs(1) math.abs(1) return gethook() end)
  local before = n
  local ok, hook = coroutine.resume(co)
  local inside = n - before
  sethook()
  return ok, hook, inside
end)

check("a hook for a coroutine from outside", function()
  local lines = 0
  local co = coroutine.create(function()
    local a = 1
    coroutine.yield(a)
    a = a + 1
    return a
  end)
  sethook(co, function() lines = lines + 1 end, "l")
  local r = { coroutine.resume(co) }
  local mid = lines
  local hooked = gethook(co) ~= nil
  sethook(co)
  coroutine.resume(co)
  return r, mid, lines, hooked, (gethook(co))
end)

check("a hook stays in a coroutine that yields", function()
  local n = 0
  local co = coroutine.wrap(function()
    sethook(function() n = n + 1 end, "l")
    coroutine.yield()
    local a = 1
    coroutine.yield(a)
    sethook()
  end)
  co()
  local first = n
  co()
  local second = n
  co()
  return first > 0, second > first, (gethook())
end)

check("hooks do not nest", function()
  local depth, most = 0, 0
  local function inner() return 1 end
  sethook(function()
    depth = depth + 1
    if depth > most then most = depth end
    inner()
    depth = depth - 1
  end, "cl")
  inner()
  sethook()
  return most
end)

check("setting a hook in a hook", function()
  local log = {}
  sethook(function()
    log[#log + 1] = "first"
    sethook(function() log[#log + 1] = "second" sethook() end, "l")
  end, "l")
  local _ = 1
  _ = 2
  _ = 3
  return log, (gethook())
end)

check("changing locals in a hook", function()
  local function f()
    local value = 1
    local copy = value
    return copy
  end
  local base = getinfo(f, "S").linedefined
  sethook(function(_, line) if line == base + 2 then debug.setlocal(2, 1, 99) end end, "l")
  local r = f()
  sethook()
  return r
end)

check("counting while it burns", function()
  local n = 0
  sethook(function() n = n + 1 end, "", 1000)
  local r = burn(20000)
  sethook()
  return n, r
end, 30)

check("lines while it burns", function()
  local n = 0
  local function f()
    local x = 0
    for i = 1, 300 do
      x = x + i
      x = x - 1
    end
    return x
  end
  sethook(function() n = n + 1 end, "l")
  f()
  sethook()
  return n
end, 100)

check("calls while it burns", function()
  local calls, returns = 0, 0
  local function leaf(a) return a end
  sethook(function(event) if event == "return" then returns = returns + 1 else calls = calls + 1 end end, "cr")
  for i = 1, 500 do leaf(i) end
  sethook()
  return calls, returns
end, 50)

check("tail calls", function()
  local log = {}
  local function f(n) if n == 0 then return "end" end return f(n - 1) end
  sethook(function(event) log[event] = (log[event] or 0) + 1 end, "cr")
  f(5)
  sethook()
  return log
end)

check("a hook across pcall and error", function()
  local n = 0
  sethook(function() n = n + 1 end, "c")
  pcall(error, "x")
  local seen = n
  sethook()
  return seen
end)

check("wrong arguments", function()
  return { pcall(sethook, 1, "l") }, { pcall(sethook, print, {}) }, { pcall(gethook, 5) }
end)
