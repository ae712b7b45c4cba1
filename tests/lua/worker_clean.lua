-- A job must not see what an earlier job of the same worker left behind.  Each kind of state is
-- tried, in an isolate that is reused where that is possible.
local check = require "check"
local orrery = require "orrery"
local async, worker = orrery.async, orrery.worker
local test, equal, truthy = check.test, check.equal, check.truthy

local one_at_a_time = worker.pool { size = 1 }

-- Calls the job `rounds` times.  The job returns whether it found a clean state, and then changes
-- it.
local function clean(name, script, options)
  test(name, function()
    options = options or {}
    local w = one_at_a_time:new(script, { modules = options.modules, name = "job" })
    for _ = 1, 6 do
      equal(w:call(), options.expected or "clean")
    end
    local made = worker.stats().isolates
    for _ = 1, 10 do w:call() end
    made = worker.stats().isolates - made
    if options.reused == false then
      equal(made, 10, "isolates made, of which none can be used again")
    else
      truthy(made <= worker.stats().threads, made .. " isolates made for ten jobs: few")
    end
  end)
end

-- `found` returns nil or false for a clean state; `mark` changes the state.
local function state(name, found, mark, options)
  clean(name, string.format("local found = %s\n%s\nreturn found and 'dirty: ' .. tostring(found) or 'clean'", found, mark),
    options)
end

-- --- Tables --------------------------------------------------------------------------------------

state("globals", "leak", "leak = true")
state("globals set behind their back", "rawget(_G, 'leak')", "rawset(_G, 'leak', true)")
state("globals that were taken away", "print == nil or next == nil", "print, next = nil, nil")
state("the metatable of the globals", "undefined_name", "setmetatable(_G, { __index = function() return 'leak' end })")
state("the globals' own name", "_G ~= _ENV or _G.string == nil", "_G = {}")
state("the script's environment", "leak", "_ENV = setmetatable({ leak = true }, { __index = _ENV })")
state("functions of a library", "string.upper 'a' ~= 'A'", "string.upper = function() return 'leak' end")
state("additions to a library", "table.leak", "table.leak = true")
state("a whole library", "math.leak", "math = { leak = true, randomseed = function() error 'never' end }")
state("what the libraries' restoring needs", "math == nil or math.randomseed == nil", "math = nil")
state("the metatable of strings", "('x').leak", "getmetatable('').__index = { leak = true }")
state("additions to the metatable of strings", "pcall(function() return 'x' + {} end)",
  "getmetatable('').__add = function() return 1 end")
state("metatables of libraries", "string.leak", "setmetatable(string, { __index = { leak = true } })")
state("package.loaded", "package.loaded.leak", "package.loaded.leak = true")
state("what package.loaded had", "require 'string' ~= string", "package.loaded.string = {}")
state("package.preload", "pcall(require, 'leak')", "package.preload.leak = function() return true end")
state("package.path", "package.path:find 'leak'", "package.path = './leak/?.lua'")
state("package.searchers", "#package.searchers ~= 4", "package.searchers[5] = function() end")
state("package itself", "package.leak", "package.leak = true")
state("a module that was required", "leaked_global",
  "package.preload.mine = function() leaked_global = true return {} end require 'mine'")
state("the API", "require 'orrery'.leak", "local o = require 'orrery' o.leak = true")
state("the API's functions", "require 'orrery'.async.leak", "pcall(function() require 'orrery'.async.leak = true end)")
state("the API's tables, raw", "rawget(require 'orrery'.async, 'leak')", "rawset(require 'orrery'.async, 'leak', true)")
state("methods of classes", "require 'orrery'.async.event().leak",
  "pcall(function() getmetatable(require 'orrery'.async.event()).leak = true end)")
state("methods of files", "io.stdout.leak", "pcall(function() getmetatable(io.stdout).__index.leak = true end)")
state("fields in the place of others, as many as before", "tostring ~= nil and tostring(1) ~= '1'",
  "tostring = function() return 'leak' end")

-- --- Tables, in every way that a script can change them ------------------------------------------

-- An unchanged table is recognised by its memory.  Each of these changes another part of it.
state("a library with an integer key", "string[1]", "string[1] = true")
state("a library with integer keys far apart", "string[1] or string[1000000]", "string[1], string[1000000] = 1, 2")
state("a library with keys of other types", "math[0.5] or math[true] or math[print]",
  "math[0.5], math[true], math[print] = 1, 2, 3")
state("a library that grew", "string.k1 or string.k1000 or string.upper == nil",
  "for i = 1, 1000 do string['k' .. i] = i end")
state("a library that grew and lost all of it again", "next(string, nil) == nil or string.k1 or string.upper == nil",
  "for i = 1, 100 do string['k' .. i] = i end for k in pairs(string) do string[k] = nil end")
state("a library that was filled by table.insert", "#string > 0", "for i = 1, 20 do table.insert(string, i) end")
state("a library that was filled by table.move", "#math > 0", "table.move({ 1, 2, 3 }, 1, 3, 1, math)")
state("the globals, filled to the brim", "a1 or a64", "for i = 1, 64 do _G['a' .. i] = i end")
state("two functions exchanged", "math.max(1, 2) ~= 2", "math.max, math.min = math.min, math.max")
state("a key that came, went, and was collected", "table.leak",
  "table.leak = 1 table.leak = nil collectgarbage() table['le' .. 'ak'] = 1")
state("the mark of an array", "getmetatable(string)", "require 'orrery'.json.array(string)")
state("an empty library of the API, raw", "next(require 'orrery'.async) or rawget(require 'orrery'.async, 1)",
  "local a = require 'orrery'.async for i = 1, 9 do rawset(a, i, i) end")

test("a library that other jobs changed in other ways", function()
  local w = one_at_a_time:new [[
    local n = ...
    local found = string.x or string[1] or math.x or leak or math.k1 or ("aB"):upper() ~= "AB" or ("aB"):lower() ~= "ab"
    if n % 2 == 0 then string.x = n end
    if n % 3 == 0 then string[1] = n end
    if n % 5 == 0 then for i = 1, n do math['k' .. i] = i end math.x = true end
    if n % 7 == 0 then string.upper, string.lower = string.lower end
    if n % 11 == 0 then collectgarbage() end
    leak = n % 13 == 0 or nil
    return not found
  ]]
  for i = 1, 300 do
    equal(w:call(i), true, "job " .. i)
  end
end)

-- --- Not in tables -------------------------------------------------------------------------------

state("a hook", "debug.sethook", "")
state("the upvalues of library functions", "debug.setupvalue or debug.getregistry or debug.setmetatable", "")
state("the collector, stopped", "not collectgarbage 'isrunning'", "collectgarbage 'stop'")
state("the collector's mode", "collectgarbage 'incremental' ~= 'incremental'", "collectgarbage 'generational'")
state("the collector's pause", "collectgarbage('setpause', 200) ~= 200", "collectgarbage('setpause', 777)")
state("the collector's step multiplier", "collectgarbage('setstepmul', 100) ~= 100", "collectgarbage('setstepmul', 333)")
state("async.debug", "require 'orrery'.async.current():traceback():find('created', 1, true)", [[
  local async = require 'orrery'.async
  async.debug(true)
  assert(async.await(async.run(function() return async.current():traceback() end)):find('created', 1, true))
]])

clean("figures", [[
  local orrery = require "orrery"
  local before = orrery.runtime.stats().schedule_errors
  orrery.async.run({ detached = true }, function() end)
  local began = os.clock()
  while os.clock() < began + 0.006 do end
  return before == 0 and orrery.runtime.stats().timeouts == 0 and "clean" or "dirty"
]])

test("random numbers", function()
  local w = one_at_a_time:new "local n = math.random(0) math.randomseed(42) return n"
  local seen = {}
  for _ = 1, 20 do
    local n = w:call()
    equal(seen[n], nil, "a random number again")
    seen[n] = true
  end
end)

state("coroutines left suspended", "leak", [[
  local co = coroutine.wrap(function() leak = 1 coroutine.yield() leak = 2 end)
  co()
  coroutine.wrap(function() local _ <close> = setmetatable({}, { __close = function() leak = 3 end }) coroutine.yield() end)()
]])
state("tasks left", "leak", [[
  local async = require 'orrery'.async
  async.run(function() async.sleep(1) leak = true end)
]])
state("timers left", "leak", [[
  local loop = require 'orrery'.loop
  local timer = loop.new_timer()
  timer:start(1, 0, function() leak = true timer:close() end)
  local never = loop.new_timer()
]])
state("callbacks left", "leak", "require 'orrery'.schedule(function() leak = true end)")
state("eventloops left", "leak", "local e = require 'orrery'.eventloop.new()")

state("finalizers", "leak", "setmetatable({}, { __gc = function() leak = true end })", { reused = false })
state("finalizers, by a function that was kept", "leak",
  "local set = setmetatable setmetatable = nil set({}, { __gc = function() leak = true end })", { reused = false })
state("the output", "io.output() ~= io.stdout", "io.output(io.stderr)", { reused = false })
state("the input", "io.input() ~= io.stdin", "io.input(io.stdin)", { reused = false })
state("files left open", "leak", "local f = io.tmpfile()", { reused = false })
state("a library written in C", "leak", "pcall(package.loadlib, '/nowhere.so', '*')", { reused = false })

-- --- Modules -------------------------------------------------------------------------------------

local function module_state(name, module, reused)
  clean(name, "return m() and 'dirty' or 'clean'", { modules = { m = module }, reused = reused })
end

module_state("upvalues of modules", "local n = 0 return function() n = n + 1 return n > 1 end")
module_state("upvalues of functions in upvalues",
  "local n = 0 local function count() n = n + 1 return n end return function() return count() > 1 end")
module_state("tables of modules", "local t = {} return function() t[#t + 1] = true return #t > 1 end")
module_state("an array with room",
  "local t = { 1, 2, 3, 4 } t[4] = nil return function() local found = t[4] t[4] = true return found end")
module_state("a table that has lost its elements",
  "local t = { x = 1, 1, 2, 3, 4 } for i = 1, 4 do t[i] = nil end return function() local found = t[1] t[1] = true return found end")
module_state("a large table", [[
  local t = {}
  for i = 1, 2000 do t["k" .. i] = i end
  return function()
    local found = t.k2000 ~= 2000 or t.k2001
    t.k2000, t.k2001 = nil, true
    return found
  end]])
module_state("many tables", [[
  local all = {}
  for i = 1, 3000 do all["t" .. i] = { n = 0, a = 1, b = 2 } end
  return function()
    local n = 0
    for _, t in pairs(all) do n, t.n = n + t.n, t.n + 1 end
    return n > 0
  end]])
module_state("metatables of modules", [[
  local t = setmetatable({}, { __index = { n = 0 } })
  return function()
    local m = getmetatable(t).__index
    m.n = m.n + 1
    return m.n > 1
  end]])
module_state("functions behind a hidden metatable", [[
  local n = 0
  return setmetatable({}, { __metatable = false, __call = function() n = n + 1 return n > 1 end })]])
module_state("weak tables of modules", [[
  local cache = setmetatable({}, { __mode = "v" })
  return function()
    local found = cache.x
    cache.x = print
    return found
  end]])
module_state("coroutines of modules", [[
  return coroutine.wrap(function()
    coroutine.yield(false)
    while true do coroutine.yield(true) end
  end)]], false)
module_state("objects of modules", [[
  local queue = require "orrery".async.queue()
  return function()
    local n = queue:size()
    queue:put_nowait(1)
    return n > 0
  end]], false)
module_state("what a module has that cannot be put back at all",
  "local kept = setmetatable({}, { __gc = function() end }) return function() return kept == nil end", false)

test("a module's table and functions are restored", function()
  local w = one_at_a_time:new("local was = m.f() m.f = function() return 'dirty' end m.extra = true return was, m.extra == true",
    { modules = { m = "return { f = function() return 'clean' end }" } })
  for _ = 1, 6 do
    equal(w:call(), "clean")
  end
end)

-- --- Failed jobs ---------------------------------------------------------------------------------

test("a job that failed, was cancelled, or ran out of time leaves nothing either", function()
  local w = one_at_a_time:new [[
    local how = ...
    if leak then return "dirty" end
    leak = true
    local async = require "orrery".async
    if how == "fail" then error "failed" end
    if how == "wait" then async.sleep(1e12) end
    if how == "compute" then while true do end end
    if how == "stray" then async.run({ detached = true }, function() error "stray" end) async.sleep(1e12) end
    return "clean"
  ]]
  for _ = 1, 3 do
    for _, how in ipairs { "fail", "wait", "compute", "stray" } do
      equal(pcall(w.call, w, how, { timeout = 20 }), false)
      equal(w:call "return", "clean")
      w:run(how, function() end)
      w:cancel()
      equal(w:call "return", "clean")
    end
  end
end)

test("workers do not see one another, nor the isolate that made them", function()
  leak = true -- luacheck: ignore 111
  equal(worker.new("local was = leak leak = 1 return was"):call(), nil)
  equal(worker.new("return leak"):call(), nil)
  equal(leak, true) -- luacheck: ignore 113
  leak = nil -- luacheck: ignore 111
end)

test("an isolate does not keep what a job held", function()
  local w = one_at_a_time:new "local t = {} for i = 1, 2e5 do t[i] = { i } end return collectgarbage 'count'"
  local first = w:call()
  for _ = 1, 10 do
    truthy(w:call() < 2 * first)
  end
end)

async.checkpoint()
