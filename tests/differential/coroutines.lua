-- Coroutines: what they pass, how they end, what they may do meanwhile.

local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local status, wrap, close, running = coroutine.status, coroutine.wrap, coroutine.close, coroutine.running

check("values go in and out", function()
  local co = create(function(...)
    local a, b = yield(select("#", ...), ...)
    local c = yield(a, b, nil)
    return c, "end"
  end)
  local r1 = table.pack(resume(co, 1, nil, 3))
  local r2 = table.pack(resume(co, "x"))
  local r3 = table.pack(resume(co))
  local r4 = table.pack(resume(co))
  return r1, r2, r3, r4, status(co)
end)

check("a hundred values at once", function()
  local list = {}
  for i = 1, 100 do list[i] = i end
  local co = wrap(function(...) return select("#", yield(...)), ... end)
  local n = select("#", co(table.unpack(list)))
  return n, (co(table.unpack(list, 1, 50)))
end)

check("status, seen from everywhere", function()
  local list, outer = {}, nil
  outer = create(function()
    list[1] = status(outer)
    local inner = create(function() list[2] = status(outer) end)
    list[3] = status(inner)
    resume(inner)
    list[4] = status(inner)
    yield()
  end)
  list[5] = status(outer)
  resume(outer)
  list[6] = status(outer)
  resume(outer)
  list[7] = status(outer)
  return list
end)

check("a dead coroutine", function()
  local co = create(function() end)
  resume(co)
  return resume(co)
end)

check("a dead wrap", function()
  local f = wrap(function() return 1 end)
  f()
  return f()
end)

check("resuming oneself", function()
  local co
  co = create(function() return resume(co) end)
  return resume(co)
end)

check("resuming oneself by wrap", function()
  local f
  f = wrap(function() return pcall(f) end)
  return f()
end)

check("resuming one that is normal", function()
  local outer
  outer = create(function() return resume(create(function() return resume(outer) end)) end)
  return resume(outer)
end)

check("an error leaves it dead", function()
  local co = create(function() error "oops" end)
  local ok, err = resume(co)
  return ok, err, status(co), resume(co)
end)

check("an error value is passed as it is", function()
  local value = {}
  local ok, err = resume(create(function() error(value) end))
  return ok, err == value
end)

check("an error of nil", function() return resume(create(function() error() end)) end)

check("wrap adds where", function() return pcall(wrap(function() error("x", 0) end)) end)
check("wrap passes tables", function() return pcall(wrap(function() error { 1 } end)) end)
check("wrap with a level", function() return pcall(wrap(function() error("deep", 2) end)) end)

check("yield across pcall", function()
  local co = wrap(function()
    local ok, a = pcall(function() return yield(1) + 1 end)
    local ok2, err = pcall(function() yield(ok, a) error "inside" end)
    return ok2, err
  end)
  return co(), { co(10) }, co()
end)

check("yield across nested pcalls and errors", function()
  local co = wrap(function()
    return pcall(pcall, pcall, function()
      local x <close> = setmetatable({}, { __close = function() yield "closing" end })
      yield "body"
      error "E"
    end)
  end)
  return co(), co(), co()
end)

check("yield across xpcall", function()
  local co = wrap(function()
    return xpcall(function(...) local x = yield(...) error(x) end, function(m) return "handled " .. tostring(m) end, 1, 2)
  end)
  return { co() }, co("value")
end)

check("yield in a handler", function()
  local co = create(function() return xpcall(error, function() return yield(1) end, "x") end)
  return resume(co)
end)

check("yield in metamethods", function()
  local mt = {}
  for _, name in ipairs { "__add", "__sub", "__mul", "__div", "__mod", "__pow", "__idiv", "__band", "__bor", "__bxor", "__shl",
    "__shr", "__concat", "__unm", "__bnot", "__len", "__lt", "__le", "__eq", "__call", "__index" } do
    mt[name] = function() return yield(name) end
  end
  mt.__newindex = function(t, k, v) rawset(t, k, yield("__newindex") or v) end
  local a, b = setmetatable({}, mt), setmetatable({}, mt)
  local f = wrap(function()
    a.x = 1
    return "done", a + b, a - b, a * b, a / b, a % b, a ^ b, a // b, a & b, a | b, a ~ b, a << b, a >> b, a .. b, -a, ~a, #a, a < b, a <= b,
      a == b, a ~= b, a > b, a >= b, a(1), a.y, rawget(a, "x")
  end)
  local got, n = {}, 0
  local last = table.pack(f())
  while last[1] ~= "done" do
    n = n + 1
    got[n] = last[1]
    last = table.pack(f(n))
  end
  return got, last
end)

check("yield in concatenations", function()
  local mt = { __concat = function(a, b)
    return (yield("c") or "") .. (type(a) == "table" and a.v or a) .. (type(b) == "table" and b.v or b)
  end }
  local x = setmetatable({ v = "x" }, mt)
  local f = wrap(function() local s = x .. "b" s = 2.5 .. s local u = "a" .. x return s .. u end)
  local r, n = f(), 0
  while r == "c" do n = n + 1 r = f("<" .. n .. ">") end
  return r, n
end)

check("yield in iterators", function()
  local function iterator(_, i) yield("at " .. i) if i < 3 then return i + 1 end end
  local f = wrap(function()
    local sum = 0
    for i in iterator, nil, 0 do sum = sum + i end
    return sum
  end)
  return f(), f(), f(), f(), f()
end)

check("yield in __pairs", function()
  local t = setmetatable({}, { __pairs = function() yield "pairs" return next, { 5 }, nil end })
  local f = wrap(function() for k, v in pairs(t) do yield(k, v) end return "end" end)
  return f(), { f() }, f()
end)

check("yield in an iterator's close", function()
  local f = wrap(function()
    local closer = setmetatable({}, { __close = function(_, e) yield("closing " .. tostring(e)) end })
    for i in function(_, i) return i + 1 end, nil, 0, closer do
      if i == 2 then break end
      yield(i)
    end
    return "after"
  end)
  return f(), f(), f()
end)

check("yield across table.sort", function()
  return resume(create(function() table.sort({ 3, 2, 1 }, function(a, b) yield() return a < b end) end))
end)

check("yield across gsub", function()
  return resume(create(function() return (("abc"):gsub(".", function(c) return yield(c) end)) end))
end)

check("yield across load's reader", function()
  return resume(create(function() return load(function() yield "part" return nil end) end))
end)

check("yield across tostring", function()
  return resume(create(function() return tostring(setmetatable({}, { __tostring = function() yield() return "x" end })) end))
end)

check("yield outside", function()
  local co, main = running()
  -- the program's script is a task
  if not main then return "attempt to yield from outside a coroutine" end
  return select(2, pcall(yield, type(co)))
end)

check("isyieldable", function()
  local co = create(function() return coroutine.isyieldable() end)
  return coroutine.isyieldable(co), select(2, resume(co)), coroutine.isyieldable(co)
end)

check("isyieldable in a comparison", function()
  local inside
  wrap(function() table.sort({ 2, 1 }, function(a, b) inside = coroutine.isyieldable() return a < b end) end)()
  return inside
end)

check("running in a coroutine", function()
  local co
  co = create(function() local me, main = running() return me == co, main end)
  return resume(co)
end)

check("running in main", function()
  local co, main = running()
  return type(co), main, status(co), coroutine.isyieldable()
end)

check("close a fresh one", function()
  local co = create(function() end)
  return close(co), status(co), resume(co)
end)

check("close one that waits", function()
  local log = {}
  local co = create(function()
    local a <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = "a " .. tostring(e) end })
    local b <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = "b " .. tostring(e) end })
    yield()
    log[#log + 1] = "never"
  end)
  resume(co)
  return close(co), status(co), log
end)

check("close with an error in a close", function()
  local log = {}
  local co = create(function()
    local a <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = "a " .. tostring(e) end })
    local b <close> = setmetatable({}, { __close = function() error("b's", 0) end })
    local c <close> = setmetatable({}, { __close = function() error("c's", 0) end })
    yield()
  end)
  resume(co)
  local r = table.pack(close(co))
  return r, status(co), log, close(co)
end)

check("close after an error", function()
  local co = create(function() error({ "v" }) end)
  resume(co)
  return close(co), close(co)
end)

check("close itself", function()
  return wrap(function() return pcall(close, running()) end)()
end)

check("close one that is normal", function()
  local outer
  outer = create(function() return wrap(function() return pcall(close, outer) end)() end)
  return resume(outer)
end)

check("yield in a close", function()
  local co = wrap(function()
    local x <close> = setmetatable({}, { __close = function() yield "one" yield "two" end })
    return "result"
  end)
  return co(), co(), co()
end)

check("a close that fails after the body has", function()
  local co = create(function()
    local x <close> = setmetatable({}, { __close = function(_, e) error("close after " .. tostring(e), 0) end })
    error("body", 0)
  end)
  return resume(co)
end)

check("many coroutines", function()
  local list, sum = {}, 0
  for i = 1, 50 do list[i] = wrap(function() for j = 1, 5 do yield(i * j) end return 0 end) end
  for _ = 1, 5 do for i = 1, 50 do sum = sum + list[i]() end end
  return sum
end)

check("a sieve", function()
  local function filter(p, g) return wrap(function() while true do local n = g() if n % p ~= 0 then yield(n) end end end) end
  local x = wrap(function() for n = 2, 1000 do yield(n) end end)
  local list = {}
  for _ = 1, 12 do
    local p = x()
    list[#list + 1] = p
    x = filter(p, x)
  end
  return table.concat(list, " ")
end, 20)

check("permutations", function()
  local function permute(a, n)
    if n == 0 then yield(table.concat(a)) return end
    for i = 1, n do
      a[n], a[i] = a[i], a[n]
      permute(a, n - 1)
      a[n], a[i] = a[i], a[n]
    end
  end
  local list = {}
  for p in wrap(function() permute({ "a", "b", "c" }, 3) end) do list[#list + 1] = p end
  return table.concat(list, " ")
end)

check("nested a hundred deep", function()
  local function nest(n) if n == 0 then return "bottom" end return wrap(nest)(n - 1) end
  return nest(100)
end, 20)

check("nested too deep", function()
  local depth = 0
  local function nest() depth = depth + 1 return wrap(nest)() end
  local ok, err = pcall(nest)
  return ok, (tostring(err):gsub("^.*:%d+: ", "")), depth > 100
end, 3)

check("errors through layers of wrap", function()
  return pcall(wrap(function() wrap(function() wrap(function() error "deep" end)() end)() end))
end)

check("yields through layers do not mix", function()
  local inner = wrap(function() for i = 1, 3 do yield("inner " .. i) end end)
  local outer = wrap(function() yield(inner()) yield "outer" yield(inner()) end)
  return outer(), outer(), outer()
end)

check("a method that yields", function()
  local o = { n = 0 }
  function o:step() self.n = self.n + 1 return yield(self.n) end
  local f = wrap(function() while true do o:step() end end)
  return f(), f(), f()
end)

check("vararg functions that yield", function()
  local function f(...) local a = select("#", ...) yield(a) return select("#", ...), ... end
  local co = wrap(f)
  return co(nil, nil, nil), { co() }
end)

check("tail calls that yield", function()
  local function loop(n) if n == 0 then return "end" end yield(n) return loop(n - 1) end
  local co, list = wrap(loop), {}
  for v in co, 4 do list[#list + 1] = v if v == "end" then break end end
  return list
end)

check("close while it burns", function()
  local log = {}
  local co = create(function()
    local x <close> = setmetatable({}, { __close = function() burn() log[#log + 1] = "closed" end })
    burn()
    yield()
  end)
  resume(co)
  return close(co), log, status(co)
end, 20)

check("fails while it burns", function()
  local log = {}
  local co = create(function()
    local x <close> = setmetatable({}, { __close = function(_, e) burn() log[#log + 1] = e end })
    burn()
    error("after a while", 0)
  end)
  return { resume(co) }, log, status(co), { close(co) }
end, 20)

check("resuming oneself again and again", function()
  local co, bad = nil, 0
  for _ = 1, 300 do
    co = wrap(function() local _, e = pcall(co) if type(e) ~= "string" then bad = bad + 1 end end)
    co()
  end
  return bad
end)

check("wrong arguments", function()
  return { pcall(create) }, { pcall(create, 1) }, { pcall(wrap, {}) }, { pcall(resume) }, { pcall(resume, print) },
    { pcall(status, 1) }, { pcall(close, "x") }, { pcall(coroutine.isyieldable, 1) }
end)

check("a traceback of a coroutine", function()
  local co = create(function() local function f() yield() end f() end)
  resume(co)
  return debug.traceback(co), debug.traceback(co, "message"), debug.traceback(co, nil, 1), debug.traceback(co, "m", 9)
end)

check("a traceback of one that failed", function()
  local co = create(function() local function f() error "x" end f() end)
  resume(co)
  return debug.traceback(co)
end)
