-- untrusted: collections are the runtime's there, and there are no finalizers
-- Garbage collection: weak tables, finalizers, their order, resurrection, options.

once("the mode at the start", function() return collectgarbage "incremental" end)

check("weak values", function()
  local t = setmetatable({}, { __mode = "v" })
  t[1], t[2], t.x = {}, {}, {}
  local keep = t[2]
  t.n, t.s = 5, "string"
  collectgarbage()
  return t[1], t[2] == keep, t.x, t.n, t.s
end, 20)

check("weak keys", function()
  local t = setmetatable({}, { __mode = "k" })
  local key = {}
  t[{}] = 1
  t[key] = 2
  t[1] = {}
  t.s = {}
  collectgarbage()
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n, t[key]
end, 20)

check("weak both", function()
  local t = setmetatable({}, { __mode = "kv" })
  local a, b = {}, {}
  t[a] = {}
  t[{}] = b
  t[b] = a
  collectgarbage()
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n, t[b] == a
end, 20)

check("ephemerons", function()
  local t = setmetatable({}, { __mode = "k" })
  local first = {}
  local k = first
  for _ = 1, 10 do local n = {} t[k] = n k = n end
  do local x = {} t[x] = x end
  k = nil
  collectgarbage()
  local n, at = 0, first
  while t[at] do n = n + 1 at = t[at] end
  local all = 0
  for _ in pairs(t) do all = all + 1 end
  return n, all
end, 20)

check("finalizers in the reverse order", function()
  local log = {}
  for i = 1, 5 do setmetatable({}, { __gc = function() log[#log + 1] = i end }) end
  collectgarbage()
  return log
end, 20)

check("a finalizer is called once", function()
  local n = 0
  do setmetatable({}, { __gc = function() n = n + 1 end }) end
  collectgarbage()
  collectgarbage()
  return n
end, 20)

check("resurrection", function()
  local saved, n = nil, 0
  do
    local o = setmetatable({ v = 7 }, { __gc = function(o) n = n + 1 saved = o end })
    o = nil
  end
  collectgarbage()
  local v = saved and saved.v
  saved = nil
  collectgarbage()
  return v, n
end, 20)

check("a finalizer again after resurrection", function()
  local n, mt = 0, {}
  mt.__gc = function(o) n = n + 1 if n < 3 then setmetatable(o, mt) end end
  setmetatable({}, mt)
  for _ = 1, 5 do collectgarbage() end
  return n
end, 10)

check("__gc that is set too late", function()
  local n, mt = 0, {}
  setmetatable({}, mt)
  mt.__gc = function() n = n + 1 end
  collectgarbage()
  local mt2 = { __gc = true }
  setmetatable({}, mt2)
  mt2.__gc = function() n = n + 10 end
  collectgarbage()
  return n
end, 20)

check("__gc that is not a function", function()
  setmetatable({}, { __gc = 5 })
  setmetatable({}, { __gc = true })
  collectgarbage()
  return "fine"
end, 20)

check("objects seen by finalizers", function()
  local log = {}
  do
    local inner = { "inner" }
    setmetatable({ inner }, { __gc = function(o) log[1] = o[1][1] end })
  end
  collectgarbage()
  return log
end, 20)

check("weak tables and finalizers", function()
  local values, keys = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "k" })
  local seen = {}
  do
    local o = setmetatable({}, { __gc = function(o) seen[1] = values[1] == nil seen[2] = keys[o] end })
    values[1] = o
    keys[o] = "still"
  end
  collectgarbage()
  collectgarbage()
  return seen, next(keys)
end, 20)

check("weak strings and numbers stay", function()
  local t = setmetatable({ "a", 1, 2.5, true }, { __mode = "kv" })
  collectgarbage()
  return #t, t[1], t[4]
end, 20)

-- Returns nil if nothing keeps the object that the function makes.
local function after_collection(make)
  local t = setmetatable({}, { __mode = "v" })
  t[1] = make()
  collectgarbage()
  return t[1]
end

check("coroutines are collected", function()
  return after_collection(function()
    local co = coroutine.create(function() coroutine.yield() end)
    coroutine.resume(co)
    return co
  end)
end, 20)

check("closures and upvalues are collected", function()
  local t = setmetatable({}, { __mode = "v" })
  local get
  do
    local a, b = {}, {}
    t[1], t[2] = a, b
    get = function() return a end
  end
  collectgarbage()
  return t[1] == get(), t[2]
end, 20)

check("cycles are collected", function()
  return after_collection(function()
    local a, b = {}, {}
    a.b, b.a = b, a
    return a
  end)
end, 20)

check("count goes down", function()
  local before = collectgarbage "count"
  local big = {}
  for i = 1, 5000 do big[i] = { i } end
  local during = collectgarbage "count"
  big = nil
  collectgarbage()
  return during > before, collectgarbage "count" < during, math.type(collectgarbage "count")
end, 5)

check("options answer", function()
  local r = {}
  r[1] = collectgarbage "isrunning"
  r[2] = collectgarbage "stop"
  r[3] = collectgarbage "isrunning"
  r[4] = collectgarbage "restart"
  r[5] = collectgarbage "isrunning"
  r[6] = collectgarbage "collect"
  return r
end, 20)

check("modes", function()
  collectgarbage "incremental"
  local r = { collectgarbage "incremental" }
  r[2] = collectgarbage "generational"
  r[3] = collectgarbage "generational"
  r[4] = collectgarbage "incremental"
  return r
end, 20)

check("pace", function()
  local old = collectgarbage("setpause", 150)
  local now = collectgarbage("setpause", old)
  local mul = collectgarbage("setstepmul", 200)
  local then_ = collectgarbage("setstepmul", mul)
  return now, then_
end, 20)

check("the pace at the start", function() return collectgarbage("setpause", 200), collectgarbage("setstepmul", 100) end, 1)

check("steps until a cycle is done", function()
  collectgarbage "stop"
  local n = 0
  repeat n = n + 1 until collectgarbage("step", 0) or n > 1000000
  collectgarbage "restart"
  return n < 1000000
end, 5)

check("wrong options", function() return { pcall(collectgarbage, "nonsense") }, { pcall(collectgarbage, {}) }, { pcall(collectgarbage, "setpause", "x") } end)

check("collect inside of a finalizer", function()
  local r
  setmetatable({}, { __gc = function() r = collectgarbage() end })
  collectgarbage()
  return r
end, 5)

check("finalizers that make garbage", function()
  local n = 0
  for _ = 1, 5 do setmetatable({}, { __gc = function() for i = 1, 50 do n = n + #{ i, {} } end end }) end
  collectgarbage()
  return n
end, 10)

check("finalizers that burn", function()
  local n = 0
  for _ = 1, 3 do setmetatable({}, { __gc = function() burn(3000) n = n + 1 end }) end
  collectgarbage()
  return n
end, 20)

check("finalizers that fail do not stop others", function()
  local n = 0
  for i = 1, 4 do setmetatable({}, { __gc = function() n = n + 1 if i % 2 == 0 then error "ignored" end end }) end
  collectgarbage()
  return n
end, 5)

check("a yield in a finalizer", function()
  local r
  setmetatable({}, { __gc = function() r = { pcall(coroutine.yield) } end })
  coroutine.wrap(function() collectgarbage() end)()
  return r and r[1], r and r[2]
end, 5)

check("finalizers run in coroutines and outside", function()
  local ran = 0
  coroutine.wrap(function() setmetatable({}, { __gc = function() ran = ran + 1 end }) collectgarbage() end)()
  return ran
end, 10)

check("a table as a cache", function()
  local cache = setmetatable({}, { __mode = "v" })
  local function get(k) local v = cache[k] if not v then v = { k } cache[k] = v end return v end
  local a = get "a"
  local same = get "a" == a
  get "b"
  collectgarbage()
  local n = 0
  for _ in pairs(cache) do n = n + 1 end
  return same, n
end, 20)

check("a collection with a deep list", function()
  local list
  for i = 1, 20000 do list = { next = list, i } end
  collectgarbage()
  local n = 0
  while list do n = n + 1 list = list.next end
  return n
end, 3)

check("userdata of files", function()
  local t = setmetatable({}, { __mode = "v" })
  do
    local f = io.tmpfile()
    t[1] = f
    f = nil
  end
  collectgarbage()
  return t[1]
end, 5)

once("a finalizer at the end", function()
  at_end = setmetatable({}, { __gc = function() print("the end: finalizer of a global") end })
  local mt = { __gc = function(o) print("the end: " .. o[1]) end }
  at_end2 = { setmetatable({ "first made" }, mt), setmetatable({ "last made" }, mt) }
  return "set"
end)
