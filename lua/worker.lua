-- `worker`: scripts that run on other threads. The chunk's arguments are the module's table and the
-- C functions of src/lua/worker/module.c.
--
-- A worker is a program and its jobs that are under way. Some task always waits for each job: the
-- caller, or a task of ours that will call the callback. So a job belongs to the script of that
-- task, ends with it, and its timeout is the timeout of a wait.

local orrery, core = ...
local async = orrery.async
local run, scope, current = async.run, async.scope, async.current
local checkpoint = async.checkpoint
local compile, submit, call, wait = core.compile, core.submit, core.call, core.wait
local cancel, is_open = core.cancel, core.is_open
local error, next, pcall, rawget, rawlen = error, next, pcall, rawget, rawlen
local select, setmetatable, tostring, type = select, setmetatable, tostring, type
local format, find, sub, gsub = string.format, string.find, string.sub, string.gsub
local maxinteger, mtype = math.maxinteger, math.type
local pack, unpack = table.pack, table.unpack

local TIMEOUT_MS = 300000
local LONGEST_PLACE = 40
local MODULE = "^[%a_][%w_.]*$" -- the name of a module

local worker = {} -- lua/late.lua has the same functions
orrery.worker = worker

local Worker, Pool = core.watch({}, "a worker"), core.watch({}, "a worker pool")
local methods_of_worker = { __index = Worker, __metatable = false, __name = "orrery.worker" }
local methods_of_pool = { __index = Pool, __metatable = false, __name = "orrery.worker_pool" }
local weak = { __mode = "k" }
local private = setmetatable({}, weak) -- worker or pool -> its private data

--------------------------------------------------------------------------------------------- checks

local function own(self, class, method, level)
  local mine = private[self]
  if not mine or mine.class ~= class then
    error(format("%s: expected a %s before the colon, got %s", method, class, type(self)), level or 3)
  end
  return mine
end

-- `level` counts the functions out from here to the caller in the script; 3 by default.

local function check_script(what, script, level)
  if type(script) ~= "string" and type(script) ~= "function" then
    local got = type(script) == "table" and "table (the script comes first)" or type(script)
    error(format("%s: expected a script (a string of Lua or a function), got %s", what, got), level or 3)
  end
end

local function check_options(what, options, known, level)
  if options == nil then
    return {}
  elseif type(options) ~= "table" then
    error(format("%s: expected a table of options, got %s", what, type(options)), level or 3)
  end
  for name in next, options do
    if type(name) ~= "string" or not known[name] then
      local shown = type(name) == "string" and name or tostring(name)
      error(format("%s: unknown option '%s'%s", what, shown, core.advise(name, unpack(known))), level or 3)
    end
  end
  return options
end

-- Returns a list of options that is also the set of them.
local function option_names(...)
  local known = { ... }
  for i = 1, #known do
    known[known[i]] = true
  end
  return known
end

local function check_timeout(what, timeout, usual, level)
  if timeout == nil then
    return usual
  elseif type(timeout) ~= "number" or timeout ~= timeout or timeout < 0 then
    local got = type(timeout) == "number" and timeout or type(timeout)
    error(format("%s: option timeout: expected milliseconds, at least 0, got %s", what, got), level or 3)
  end
  return timeout
end

local function check_count(what, name, value, least, most, level)
  if value == nil then
    return 0
  elseif mtype(value) ~= "integer" or value < least or value > most then
    local got = type(value) == "number" and value or type(value)
    local wanted = most == maxinteger and format("of at least %d", least) or format("from %d to %d", least, most)
    error(format("%s: option %s: expected an integer %s, got %s", what, name, wanted, got), level or 3)
  end
  return value
end

-------------------------------------------------------------------------------------------- workers

local registered = {} -- modules for all workers: { name, script, name of the chunk, name, ... }
orrery.worker_modules = registered -- for lua/net_threads.lua

-- Returns the name of a script in messages: where it was given to us, `level` functions out from
-- the caller.
local function chunk_name(kind, level)
  local where = gsub(core.where(level + 1), ":%s*$", "")
  if #where > LONGEST_PLACE then -- Lua would cut the end off, where the line is
    where = "..." .. sub(where, -LONGEST_PLACE)
  end
  return where == "" and format("=[%s]", kind) or format("=[%s %s]", kind, where)
end

local function check_names(what, options, level)
  if options.name ~= nil and type(options.name) ~= "string" then
    error(format("%s: option name: expected a string, got %s", what, type(options.name)), level)
  elseif options.modules ~= nil and type(options.modules) ~= "table" then
    error(format("%s: option modules: expected a table, got %s", what, type(options.modules)), level)
  end
  for name, script in next, options.modules or {} do
    local got = type(name) ~= "string" and type(name) or not find(name, MODULE) and name
    if got then
      error(format("%s: option modules: expected the name of a module, got %s", what, got), level)
    elseif type(script) ~= "string" and type(script) ~= "function" then
      error(format("%s: option modules: %s: expected a script (a string of Lua or a function), got %s", what, name,
        type(script)), level)
    end
  end
end

local options_of_worker = option_names("name", "modules", "timeout")

-- `level` counts the functions between here and the caller in the script.
local function new_worker(what, script, options, pool, level)
  local timeout = check_timeout(what, options.timeout, pool and pool.timeout or TIMEOUT_MS, level + 1)
  check_names(what, options, level + 1)
  local modules = { unpack(registered) }
  for name, module in next, options.modules or {} do
    modules[#modules + 1], modules[#modules + 2], modules[#modules + 3] = name, module, format("=[module %s]", name)
  end
  local name = options.name and format("=%s", options.name) or chunk_name("worker", level)
  local program, err = compile(script, name, pool and pool.memory or 0, modules)
  if not program then
    error(err, type(script) == "string" and 0 or level)
  end
  local self = setmetatable({}, methods_of_worker)
  private[self] = {
    class = "worker",
    program = program,
    pool = pool,
    timeout = timeout,
    jobs = setmetatable({}, weak), -- jobs under way; the tasks that wait hold them
  }
  if pool then
    pool.workers[self] = true
  end
  return self
end

function worker.new(script, options)
  check_script("worker.new", script)
  local self = new_worker("worker.new", script, check_options("worker.new", options, options_of_worker), nil, 3)
  return self -- no tail call: messages must name our caller
end

function worker.register(name, script)
  if type(name) ~= "string" or not find(name, MODULE) then
    local got = type(name) == "string" and name or type(name)
    error(format("worker.register: expected the name of a module, got %s", got), 2)
  end
  check_script("worker.register", script)
  local chunk = format("=[module %s]", name)
  local program, err = compile(script, chunk, 0, {})
  if not program then
    error(err, type(script) == "string" and 0 or 2)
  end
  registered[#registered + 1], registered[#registered + 2], registered[#registered + 3] = name, script, chunk
end

----------------------------------------------------------------------------------------------- jobs

local function check_open(what, mine)
  if mine.closed then
    error(format("%s: the worker is closed; create another with worker.new()", what), 3)
  end
end

local function call_back(callback, tell, ok, ...)
  if ok then
    callback(...)
  elseif ok == false or tell or (...) ~= "cancelled" then
    callback(nil, ...)
  end
end

-- The callback is never called before worker:run has returned, however fast the job is.
local function deliver(mine, job, callback, tell)
  local going_on, err = pcall(checkpoint)
  if not going_on then
    mine.jobs[job] = nil
    cancel(job)
    error(err, 0)
  end
  call_back(callback, tell, wait(job, mine.jobs))
end

local options_of_run = option_names("callback", "timeout", "cancelled")

local function split_run(count, ...)
  local last = count > 0 and (select(count, ...)) or nil
  if type(last) == "function" then
    return last, {}
  end
  local callback = type(last) == "table" and rawget(last, "callback")
  if type(callback) ~= "function" then
    local got = type(last) == "table" and "a table without one" or count == 0 and "nothing" or type(last)
    error(format("worker:run: expected a callback, or a table with one, as the last argument, got %s", got), 3)
  end
  local options = check_options("worker:run", last, options_of_run, 4)
  if options.cancelled ~= nil and type(options.cancelled) ~= "boolean" then
    error(format("worker:run: option cancelled: expected true or false, got %s", type(options.cancelled)), 3)
  end
  return callback, options
end

function Worker:run(...)
  local mine = own(self, "worker", "worker:run")
  local count = select("#", ...)
  local callback, options = split_run(count, ...)
  local timeout = check_timeout("worker:run", options.timeout, mine.timeout)
  check_open("worker:run", mine)
  local arguments = pack(...)
  local job, err = submit(mine.jobs, mine.program, mine.pool and mine.pool.core, true, timeout,
    unpack(arguments, 1, count - 1))
  if job == false then
    error(format("worker:run: %s", err), 2)
  elseif not job then
    return nil, err
  end
  local how = { name = "worker:run", detached = true }
  local started, task = pcall(run, how, deliver, mine, job, callback, options.cancelled)
  if not started then
    cancel(job)
    error(task, 0)
  end
  return task
end

-- Returns whether a table is one of options, and not an argument of the job.
local function is_options(value)
  return rawget(value, "timeout") ~= nil and next(value) == "timeout" and next(value, "timeout") == nil
end

-- Returns the results, or raises the error, which is the same value that the job raised. The
-- report of an error that nobody catches begins with the job's stack.
function Worker:call(...)
  local mine = own(self, "worker", "worker:call")
  check_open("worker:call", mine)
  local count = select("#", ...)
  local last = count > 0 and (select(count, ...))
  if type(last) ~= "table" or not is_options(last) then
    return call(mine.jobs, mine.program, mine.pool and mine.pool.core, false, mine.timeout, ...)
  end
  local timeout = check_timeout("worker:call", last.timeout)
  local arguments = pack(...)
  return call(mine.jobs, mine.program, mine.pool and mine.pool.core, false, timeout, unpack(arguments, 1, count - 1))
end

local function cancel_all(mine)
  local count = 0
  for job in next, mine.jobs do
    count = count + (cancel(job) and 1 or 0)
  end
  return count
end

function Worker:cancel()
  return cancel_all(own(self, "worker", "worker:cancel"))
end

function Worker:pending()
  local count = 0
  for job in next, own(self, "worker", "worker:pending").jobs do
    count = count + (is_open(job) and 1 or 0)
  end
  return count
end

function Worker:close()
  local mine = own(self, "worker", "worker:close")
  mine.closed = true
  cancel_all(mine)
end

methods_of_worker.__close = Worker.close

------------------------------------------------------------------------------------------------ map

local options_of_map = option_names("concurrency", "timeout")

local function map(what, pool, script, list, options)
  local given = private[script]
  if not given or given.class ~= "worker" then
    check_script(what, script, 4)
  end
  if type(list) ~= "table" then
    error(format("%s: expected a list, got %s", what, type(list)), 3)
  elseif not current() then
    error(format("%s: not inside a task; start one with %s", what, core.starter()), 3)
  end
  check_options(what, options, options_of_map, 4)
  options = options or {}
  local wanted = check_count(what, "concurrency", options.concurrency, 1, 1000000, 4)
  local self = given and script or new_worker(what, script, { timeout = options.timeout }, pool, 4)
  local count, at = rawget(list, "n") or rawlen(list), 0
  local results = { n = count }
  local function work()
    while at < count do
      at = at + 1
      local i = at
      results[i] = (self:call(list[i]))
    end
  end
  scope(function()
    for _ = 1, wanted > 0 and wanted or core.figures(pool and pool.core).size do
      if at >= count then
        break
      end
      run({ name = what }, work)
    end
  end)
  return results
end

function worker.map(script, list, options)
  local results = map("worker.map", nil, script, list, options)
  return results
end

---------------------------------------------------------------------------------------------- pools

local options_of_pool = option_names("size", "queue", "memory", "timeout")

function worker.pool(options)
  check_options("worker.pool", options, options_of_pool)
  options = options or {}
  local size = check_count("worker.pool", "size", options.size, 1, 1000000)
  local queue = check_count("worker.pool", "queue", options.queue, 1, 1000000000)
  local self = setmetatable({}, methods_of_pool)
  private[self] = {
    class = "pool",
    core = core.pool(size, queue),
    memory = check_count("worker.pool", "memory", options.memory, 1, maxinteger),
    timeout = check_timeout("worker.pool", options.timeout, TIMEOUT_MS),
    workers = setmetatable({}, weak),
  }
  return self
end

local function open_pool(self, method)
  local mine = own(self, "pool", method, 4)
  if mine.closed then
    error(format("%s: the pool is closed; create another with worker.pool()", method), 3)
  end
  return mine
end

function Pool:new(script, options)
  local mine = open_pool(self, "pool:new")
  check_script("pool:new", script)
  local made = new_worker("pool:new", script, check_options("pool:new", options, options_of_worker), mine, 3)
  return made
end

function Pool:map(script, list, options)
  local results = map("pool:map", open_pool(self, "pool:map"), script, list, options)
  return results
end

function Pool:stats()
  return core.figures(own(self, "pool", "pool:stats").core)
end

function Pool:close()
  local mine = own(self, "pool", "pool:close")
  mine.closed = true
  for each in next, mine.workers do
    each:close()
  end
end

methods_of_pool.__close = Pool.close

function worker.stats()
  return core.figures()
end
