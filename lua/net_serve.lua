-- net.serve: a server. The chunk's arguments are the module's table, the functions of src/lua/net,
-- and what lua/net.lua shares. It returns the function.
--
-- A server is a task: a child of the task that called net.serve. It accepts connections, and each
-- connection is a child of it. So the owner's end waits for the server, and the owner's
-- cancellation ends it, with all its connections. core.start makes the tasks of connections: their
-- failures are reported, and the loss of the peer cancels them.

local orrery, core, shared = ...
local async = orrery.async
local current, is_closing, run, shield, sleep = async.current, async.is_closing, async.run, async.shield, async.sleep
local move_on_after, new_semaphore = async.move_on_after, async.semaphore
local error, pcall, setmetatable, tostring, type = error, pcall, setmetatable, tostring, type
local format, sub, huge, math_type = string.format, string.sub, math.huge, math.type
local close, pwait, status = orrery.task.close, orrery.task.pwait, orrery.task.status
local accept, start, warn = core.accept, core.start, core.warn
local finish, finish_now = core.finish, core.finish_now

local FINISH_MS = 1000 -- for the peer to take the rest of the output and to end its own
local BACK_OFF_MS = 100 -- between two tries to accept a connection when none can be had
local GRACE_MS = 5000 -- of server:stop()

local OPTIONS = shared.option_names("cancel_on_eof", "max_connections", "threads", shared.listen_options())

local serve_on_threads -- lua/net_threads.lua, when it is needed
local Server = core.watch({}, "a server")
local methods = { __index = Server, __metatable = false, __name = "orrery.server" }
local private = setmetatable({}, { __mode = "k" }) -- server -> its state

---------------------------------------------------------------------------------------- connections

-- The body of a connection's task. The connection is closed however the handler ends. After a
-- return, what was written still arrives: the output ends first, and input is dropped until the
-- peer ends it, for a while. Bytes that reach a closed connection would reset it.
local function serve(state, stream)
  local connection <close> = stream
  state.handler(connection)
  if connection:is_open() and not finish_now(connection) then
    move_on_after(FINISH_MS, finish, connection)
  end
end

-- The same, under max_connections.
local function serve_with_permit(state, stream)
  local permit <close> = state.permits -- luacheck: ignore permit
  serve(state, stream)
end

-- Accepts a connection and starts its task. Returns true, or nil and an error.
local function accept_one(state)
  local stream, err = accept(state.listener)
  if not stream then
    return nil, err
  end
  local started, why = pcall(start, state.cancel_on_eof, state.serve, state, stream)
  if started then
    return true
  end
  stream:close()
  return nil, why
end

local function accept_next(state)
  local permits = state.permits
  if not permits then
    return accept_one(state)
  end
  permits:acquire()
  local accepted, err = accept_one(state)
  if not accepted then
    permits:release()
  end
  return accepted, err
end

-- The body of the server's task. A connection that cannot be had waits in the kernel's backlog.
local function accept_all(state)
  local listener <close> = state.listener
  local in_trouble = false
  state.task = current()
  while true do
    local accepted, err = accept_next(state)
    if accepted then
      in_trouble = false
    elseif not listener:is_open() then
      return
    else
      if not in_trouble then
        warn(format("net.serve %s: no connection can be accepted: %s; the server tries again every %d ms",
          state.address, tostring(err), BACK_OFF_MS))
      end
      in_trouble = true
      sleep(BACK_OFF_MS)
    end
  end
end

------------------------------------------------------------------------------------------- stopping

-- Cancels the server and its connections, and waits until they have cleaned up. A sibling may fail
-- meanwhile: returns its error.
local function cancel_and_wait(task)
  local failure
  close(task)
  for _ = 1, 3 do
    if status(task) == "completed" then
      break
    end
    local ok, err = pwait(task)
    failure = failure or not ok and status(task) ~= "completed" and err
  end
  return failure
end

-- What a server does. A server on threads has functions of its own: lua/net_threads.lua.
local Here = {}

-- Returns whether all handlers have ended by themselves.
function Here.stop(state, grace)
  local task = state.task
  state.listener:close()
  local ok, err = false, "timeout"
  if grace == huge then
    ok, err = pwait(task)
  elseif grace > 0 then
    ok, err = pwait(task, grace)
  end
  if ok or status(task) == "completed" then
    return not state.cut_short
  end
  state.cut_short = true
  if err ~= "timeout" then
    close(task)
    error(err, 0)
  end
  err = cancel_and_wait(task)
  if err then
    error(err, 0)
  end
  return false
end

function Here.close(state)
  state.listener:close()
  state.cut_short = state.cut_short or status(state.task) ~= "completed"
  if core.is_inside(state.task) then
    close(state.task)
    return
  end
  local ok, failure
  if current() then
    ok, failure = pcall(shield, cancel_and_wait, state.task)
  else
    ok, failure = pcall(cancel_and_wait, state.task)
  end
  if (not ok or failure) and not is_closing() then
    error(failure, 0)
  end
end

function Here.connections(state)
  return core.children(state.task)
end

function Here.describe(state)
  local count = core.children(state.task)
  return format("%d connection%s", count, count == 1 and "" or "s")
end

local function own(self, method)
  local state = private[self]
  if not state then
    error(format("server:%s: expected a server before the colon, got %s", method, type(self)), 3)
  end
  return state
end

---Accepts no more connections, waits for the handlers for `grace` milliseconds, and cancels those
---that are left. Returns whether all of them ended by themselves. A handler cannot wait for its own
---end: there it returns at once, and returns nothing.
function Server:stop(grace)
  local state = own(self, "stop")
  grace = grace == nil and GRACE_MS or grace
  if type(grace) ~= "number" or grace ~= grace or grace < 0 then
    local got = type(grace) == "number" and grace or type(grace)
    error(format("server:stop: expected milliseconds, at least 0, got %s", got), 2)
  end
  if core.is_inside(state.task) then
    state.listener:close()
    run({ name = "server:stop", detached = true }, Here.stop, state, grace)
    return
  end
  local ended = state.server.stop(state, grace)
  return ended
end

---Returns the address, with the port that the kernel has chosen.
function Server:address()
  return own(self, "address").address
end

---Returns how many connections are being served.
function Server:connections()
  local state = own(self, "connections")
  return state.server.connections(state)
end

function methods.__close(self)
  local state = own(self, "close")
  state.server.close(state)
end

function methods.__tostring(self)
  local state = own(self, "tostring")
  local what = status(state.task) == "completed" and "stopped" or state.server.describe(state)
  return format("server (%s, %s)", state.address, what)
end

-------------------------------------------------------------------------------------------- serving

-- `level` 3 is the caller of net.serve.
local function check_count(options, name)
  local value = options[name]
  if value ~= nil and (math_type(value) ~= "integer" or value < 1) then
    local got = type(value) == "number" and value or type(value)
    error(format("net.serve: option %s: expected a whole number from 1 on, got %s", name, got), 3)
  end
  return value
end

local function check_flag(options, name)
  local value = options[name]
  if value ~= nil and type(value) ~= "boolean" then
    error(format("net.serve: option %s: expected true or false, got %s", name, type(value)), 3)
  end
  return value
end

local FUNCTION_ON_THREADS = "net.serve: a function cannot be called on other threads, which have isolates of their "
  .. "own; with the option threads, the handler is the name of a module that returns the function, or its source"

-- Returns whether the server runs on threads of its own.
local function check_handler(handler, threads)
  if type(handler) == "function" and (threads or 1) == 1 then
    return false
  elseif type(handler) == "function" then
    error(FUNCTION_ON_THREADS, 3)
  elseif type(handler) ~= "string" then
    error(format("net.serve: expected a function that handles a connection, got %s", type(handler)), 3)
  elseif not threads then
    error("net.serve: expected a function that handles a connection, got a string; a handler that is the name of a "
      .. "module or a source needs the option threads", 3)
  end
  return true
end

local function check_threads(address, options, most)
  if core.is_simulated(options.real) then
    error("net.serve: option threads: the clock is virtual, so the network is in memory, and other threads are not in "
      .. "it; the option real = true asks for real sockets", 3)
  elseif options.threads > 1000 then
    error(format("net.serve: option threads: expected a whole number from 1 to 1000, got %d", options.threads), 3)
  elseif most and most < options.threads then
    error(format("net.serve: option max_connections is %d, expected at least one for each of the %d threads", most,
      options.threads), 3)
  elseif options.threads > 1 and type(address) == "string" and sub(address, 1, 5) == "unix:" then
    error("net.serve: option threads: threads cannot share a Unix socket; expected a TCP address", 3)
  end
end

local function new_server(state)
  local server = setmetatable({}, methods)
  private[server] = state
  return server
end

return function(address, handler, options)
  options = shared.check_options("net.serve", options, OPTIONS)
  local most, on_eof = check_count(options, "max_connections"), check_flag(options, "cancel_on_eof")
  if check_handler(handler, check_count(options, "threads")) then
    check_threads(address, options, most)
    local found, why = shared.find_one(address, "net.serve", options.real)
    local state
    if found then
      serve_on_threads = serve_on_threads or orrery.late("net_threads")
      state, why = serve_on_threads(found, handler, options, core)
    end
    if not state then
      return nil, why
    end
    return new_server(state)
  end
  local listener, err = shared.listen(address, options, "net.serve")
  if not listener then
    return nil, err
  end
  local state = {
    address = listener:address(),
    cancel_on_eof = on_eof,
    handler = handler,
    listener = listener,
    permits = most and new_semaphore(most),
    serve = most and serve_with_permit or serve,
    server = Here,
  }
  local started, task = pcall(run, "net.serve " .. state.address, accept_all, state)
  if not started then
    listener:close()
    error(task, 2)
  end
  return new_server(state)
end
