-- To-be-closed variables.

local function closer(log, name, fails)
  return setmetatable({}, { __close = function(_, err)
    log[#log + 1] = name .. (err ~= nil and " " .. tostring(err) or "")
    if fails then error(fails, 0) end
  end })
end

check("in the reverse order", function()
  local log = {}
  do
    local a <close> = closer(log, "a")
    local b <close> = closer(log, "b")
    local c <close> = closer(log, "c")
    log[#log + 1] = "body"
  end
  return log
end)

check("at return, after the results are there", function()
  local log = {}
  local function f()
    local x = 1
    local a <close> = setmetatable({}, { __close = function() x = 2 log[#log + 1] = x end })
    return x, "second"
  end
  return { f() }, log
end)

check("at break and goto", function()
  local log = {}
  for i = 1, 3 do
    local a <close> = closer(log, "loop " .. i)
    if i == 2 then break end
  end
  do
    local i = 0
    ::again::
    local a <close> = closer(log, "goto " .. i)
    i = i + 1
    if i < 3 then goto again end
  end
  return log
end)

check("at an error", function()
  local log = {}
  local ok, err = pcall(function()
    local a <close> = closer(log, "a")
    local b <close> = closer(log, "b")
    error("E", 0)
  end)
  return ok, err, log
end)

check("errors replace each other", function()
  local log = {}
  local ok, err = pcall(function()
    local a <close> = closer(log, "a", "a's")
    local b <close> = closer(log, "b")
    local c <close> = closer(log, "c", "c's")
    error("E", 0)
  end)
  return ok, err, log
end)

check("an error at the end of a block", function()
  local log = {}
  local ok, err = pcall(function()
    local a <close> = closer(log, "a")
    do
      local b <close> = closer(log, "b", "b's")
    end
    log[#log + 1] = "never"
  end)
  return ok, err, log
end)

check("nil and false need no close", function()
  do
    local a <close> = nil
    local b <close> = false
  end
  return "fine"
end)

check("what cannot be closed", function()
  return { pcall(function() local x <close> = {} end) }, { pcall(function() local y <close> = 1 end) },
    { pcall(function() local z <close> = "s" end) }
end)

check("a metatable that changes meanwhile", function()
  return pcall(function()
    local x <close> = setmetatable({}, { __close = function() end })
    getmetatable(x).__close = 5
  end)
end)

check("a metatable that is lost", function()
  return pcall(function()
    local x <close> = setmetatable({}, { __close = function() end })
    setmetatable(x, nil)
  end)
end)

check("assigning to one", function()
  return load "local x <close> = nil; x = 1", load "local x <const> = 1; x = 2", load "local x <foo> = 1",
    load "local x <close>, y <close> = nil, nil"
end)

check("generic for", function()
  local log = {}
  local function run(stop)
    for i in function(_, i) if i < 3 then return i + 1 end end, nil, 0, closer(log, "iterator") do
      log[#log + 1] = i
      if i == stop then return "returned" end
    end
    return "ended"
  end
  return run(2), run(9), log
end)

check("generic for and an error", function()
  local log = {}
  return { pcall(function()
    for _ in function() return 1 end, nil, nil, closer(log, "iterator") do error("E", 0) end
  end) }, log
end)

check("generic for with what cannot be closed", function()
  return pcall(function() for _ in next, {}, nil, {} do end end)
end)

check("tail calls are none", function()
  local log = {}
  local function inner() log[#log + 1] = "inner" return "r" end
  local function outer()
    local a <close> = closer(log, "a")
    return inner()
  end
  return outer(), log
end)

check("varargs and many results", function()
  local function f(...)
    local a <close> = closer({}, "a")
    return ...
  end
  return select("#", f(1, nil, nil)), (f(1, 2))
end)

check("inside of closes", function()
  local log = {}
  do
    local a <close> = setmetatable({}, { __close = function()
      local b <close> = closer(log, "inner")
      log[#log + 1] = "outer"
    end })
  end
  return log
end)

check("pcall inside of a close", function()
  local log = {}
  do
    local a <close> = setmetatable({}, { __close = function()
      log[#log + 1] = select(2, pcall(function()
        local b <close> = closer(log, "b", "b's")
        error("inner", 0)
      end))
    end })
  end
  return log
end)

check("upvalues live on", function()
  local get
  do
    local x = 1
    local a <close> = setmetatable({}, { __close = function() x = x + 1 end })
    get = function() return x end
  end
  return get()
end)

check("recursion that fails deep down", function()
  local count = 0
  local function f(n)
    local a <close> = setmetatable({}, { __close = function() count = count + 1 end })
    if n == 0 then error("bottom", 0) end
    f(n - 1)
  end
  return pcall(f, 30), count
end)

check("closes that burn", function()
  local log = {}
  local function f()
    local a <close> = setmetatable({}, { __close = function() burn(3000) log[#log + 1] = "a" end })
    local b <close> = setmetatable({}, { __close = function() burn(3000) log[#log + 1] = "b" end })
    burn(3000)
    return "r1", "r2", "r3"
  end
  return { f() }, log
end, 60)

check("errors in closes that burn", function()
  local log = {}
  local function f()
    local a <close> = setmetatable({}, { __close = function(_, e) burn(3000) log[#log + 1] = e error("a's", 0) end })
    local b <close> = setmetatable({}, { __close = function(_, e) burn(3000) log[#log + 1] = e error("b's", 0) end })
    burn(3000)
    error("body's", 0)
  end
  return { pcall(f) }, log
end, 60)

check("a close without an error object", function()
  local n
  do
    local a <close> = setmetatable({}, { __close = function(...) n = select("#", ...) end })
  end
  return n
end)

check("a close that is called by a table", function()
  local log = {}
  local callable = setmetatable({}, { __call = function(_, _, e) log[#log + 1] = tostring(e) end })
  do
    local a <close> = setmetatable({}, { __close = callable })
  end
  return log
end)

check("an iterator's fourth value in a coroutine", function()
  local log = {}
  local co = coroutine.create(function()
    for i in function(_, i) return i + 1 end, nil, 0, closer(log, "it") do coroutine.yield(i) end
  end)
  coroutine.resume(co)
  coroutine.resume(co)
  return coroutine.close(co), log
end)
