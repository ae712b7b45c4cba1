-- net.serve on threads of its own. The chunk's arguments are the module's table and functions of
-- src/lua/worker. It defines the field `net_threads`: a function that starts such a server.
--
-- Each thread has an isolate that runs a long job, SERVE. All of them listen on the same address,
-- and the kernel shares the connections out (SO_REUSEPORT). The script sends a thread questions by
-- one channel and orders to stop by another, and hears from it once, by a third, that it listens. A
-- handler that computes keeps its thread from reading any of them. The server is a task, as
-- always: it has a child for each thread, which waits for the job. So cancelling the task gives up
-- the jobs.

local orrery, core = ...
if not rawget(orrery, "worker_modules") then
  orrery.late("worker")
end
local async = orrery.async
local current, event, is_closing, run, shield = async.current, async.event, async.is_closing, async.run, async.shield
local move_on_after, pcall, error, setmetatable = async.move_on_after, pcall, error, setmetatable
local next, tostring = next, tostring
local find, format, gsub, sub = string.find, string.format, string.gsub, string.sub
local huge = math.huge
local unpack = table.unpack
local close, pwait, status = orrery.task.close, orrery.task.pwait, orrery.task.status

local MODULE = "^[%a_][%w_.]*$" -- the name of a module
local HANDLER = "net_serve_handler" -- the name of a source as a module
local CLEANUP_MS = 1000 -- for threads to end after the grace of server:stop()

local SERVE = [[
local address, options, module, what, news, questions, stops = ...
local async = require("orrery").async
local handler = require(module)
if type(handler) ~= "function" then
  error(string.format("net.serve: %s must return a function that handles a connection; it returned a %s",
    what, type(handler)), 0)
end
local server, err = require("orrery").net.serve(address, handler, options)
if not server then
  news:send({ err = err })
  return
end
news:send({ address = server:address() })
local answering = async.run(function()
  for question in function() return (questions:receive()) end do
    question.reply:send({ thread = question.thread, connections = server:connections() })
  end
end)
local grace = stops:receive()
local hurrying = async.run(function() -- a later order may be less patient
  for less in function() return (stops:receive()) end do
    server:stop(less)
  end
end)
local ended = server:stop(grace or 0)
answering:close()
hurrying:close()
return ended
]]

------------------------------------------------------------------------------------------- threads

-- The tasks that need the threads: the server's, while it starts them, and one for each thread.
-- When the last of these tasks is over, the runtime of the threads ends.
local Running = {
  __close = function(running)
    running.count = running.count - 1
    if running.count == 0 then
      core.close_threads(running.threads)
    end
  end,
}

local function use_threads(state)
  state.running.count = state.running.count + 1
  return state.running
end

-- The body of a thread's child task: it owns the job.
local function run_thread(state, thread, address, options)
  local running <close> = use_threads(state) -- luacheck: ignore running
  local job, ok, result, report
  job, result = core.submit(state.jobs, state.program, state.running.threads, false, huge, address, options,
    state.module, state.what, thread.news, thread.questions, thread.stops)
  if job then
    ok, result, report = core.wait(job, state.jobs)
  end
  thread.over = true
  thread.news:close()
  thread.questions:close()
  thread.stops:close()
  if ok then
    state.unfinished = state.unfinished or result == false
  elseif thread.serves then
    error(result, 0)
  else
    thread.failure, thread.report = result or "the thread was stopped", report
  end
end

-- Starts a thread and waits until it listens. Returns its address, or nil and an error.
local function start_thread(state, address, options)
  local thread = { news = core.channel(1), questions = core.channel(16), stops = core.channel(16), connections = 0 }
  run(state.name, run_thread, state, thread, address, options)
  local news = thread.news:receive()
  if news and news.address then
    thread.serves = true
    state.threads[#state.threads + 1] = thread
    return news.address
  elseif news then
    return nil, news.err
  end
  if thread.report then
    state.report(format("net.serve %s: ", address), thread.report)
  end
  return state.fail(tostring(thread.failure), address)
end

-- The options of thread number `i`.
local function options_of(state, i)
  local options = {}
  for name, value in next, state.options do
    options[name] = value
  end
  local most, threads = options.max_connections, options.threads
  options.threads = nil
  options.reuse_port = threads > 1 or options.reuse_port
  options.max_connections = most and most // threads + (i <= most % threads and 1 or 0)
  return options
end

-- The body of the server's task: ends when all threads are over.
local function start_all(state)
  local running <close> = use_threads(state) -- luacheck: ignore running
  state.task = current()
  for i = 1, state.options.threads do
    local address, err = start_thread(state, state.address, options_of(state, i))
    if not address then
      state.err = err
      break
    end
    state.address = address
  end
  state.ready:set()
end

------------------------------------------------------------------------------------------- servers

local Server = {} -- the functions that a server on threads has in its state: see lua/net_serve.lua

-- Returns whether all handlers have ended by themselves.
function Server.stop(state, grace)
  local task = state.task
  for i = 1, #state.threads do
    state.threads[i].stops:try_send(grace)
  end
  local ok, err
  if grace == huge then
    ok, err = pwait(task)
  else
    ok, err = pwait(task, grace + CLEANUP_MS)
  end
  if not ok and (is_closing() or status(task) ~= "completed") then
    state.unfinished = true
    close(task)
    if err ~= "timeout" and (is_closing() or err ~= "closed") then
      error(err, 0)
    end
  end
  return not state.unfinished
end

function Server.close(state)
  local ok, err
  if current() then
    ok, err = pcall(shield, Server.stop, state, 0)
  else
    ok, err = pcall(Server.stop, state, 0)
  end
  close(state.task)
  if not ok and not is_closing() then
    error(err, 0)
  end
end

-- Each thread counts its own connections. One that does not answer, since a handler computes,
-- counts as it did last time.
function Server.connections(state)
  local reply, asked, total = core.channel(#state.threads), 0, 0
  for i = 1, #state.threads do
    local thread = state.threads[i]
    if thread.over then
      thread.connections = 0
    elseif thread.questions:try_send({ reply = reply, thread = i }) then
      asked = asked + 1
    end
  end
  move_on_after(CLEANUP_MS, function()
    for _ = 1, asked do
      local answer = reply:receive()
      state.threads[answer.thread].connections = answer.connections
    end
  end)
  for i = 1, #state.threads do
    total = total + state.threads[i].connections
  end
  return total
end

function Server.describe(state)
  return format("%d thread%s", #state.threads, #state.threads == 1 and "" or "s")
end

local function compile(handler, level)
  local modules, module, what = { unpack(orrery.worker_modules) }, handler, format("the module '%s'", handler)
  if not find(handler, MODULE) then
    local where = gsub(core.where(level + 1), ":%s*$", "")
    module, what = HANDLER, "the source"
    modules[#modules + 1], modules[#modules + 2] = HANDLER, handler
    modules[#modules + 1] = format("=[net.serve %s]", #where > 40 and "..." .. sub(where, -40) or where)
  end
  local program, err = core.compile(SERVE, "=net.serve", 0, modules, true)
  if not program then
    error(err, 0)
  end
  return program, module, what
end

-- `tools` has `fail(message, address)`, which returns nil and an error, and `report(head, text)`,
-- which writes to the log. Returns the state of a server that lua/net_serve.lua makes; or nil and
-- an error. `level` 3 is the caller of net.serve.
orrery.net_threads = function(address, handler, options, tools)
  if not current() then
    error("net.serve: a server on threads must be started inside a task", 3)
  end
  local program, module, what = compile(handler, 3)
  local threads, err = core.threads(options.threads)
  if not threads then
    return tools.fail("the threads cannot be started: " .. err, address)
  end
  local state = {
    address = address,
    fail = tools.fail,
    jobs = setmetatable({}, { __mode = "k" }),
    module = module,
    name = "net.serve " .. address,
    options = options,
    program = program,
    ready = event(),
    report = tools.report,
    running = setmetatable({ count = 0, threads = threads }, Running),
    server = Server,
    threads = {},
    what = what,
  }
  run(state.name, start_all, state)
  state.ready:wait()
  if state.err then
    close(state.task)
    return nil, state.err
  end
  return state
end
