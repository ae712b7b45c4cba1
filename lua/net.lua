-- The module `net`: what is better said in Lua than in C. The chunk's arguments are the module's
-- table, and the functions of src/lua/net.
--
-- Connecting to a name tries its addresses one after the other, 250 ms apart, without giving up the
-- earlier attempts; the first that answers wins (RFC 8305).

local orrery, core = ...
local async = orrery.async
local run, scope, move_on_after, new_event = async.run, async.scope, async.move_on_after, async.event
local error, next, setmetatable, type = error, next, setmetatable, type
local format, sub = string.format, string.sub
local unpack = table.unpack
local close = orrery.task.close

local ATTEMPT_DELAY = 250 -- ms between attempts to connect

local net = {} -- lua/late.lua has the same functions
orrery.net = net

-------------------------------------------------------------------------------------------- options

-- Returns a list of options that is also the set of them.
local function option_names(...)
  local known = { ... }
  for i = 1, #known do
    known[known[i]] = true
  end
  return known
end

local OF_SOCKETS = { "nodelay", "keepalive", "send_buffer", "receive_buffer", "real" }
local CONNECT = option_names("local_address", unpack(OF_SOCKETS))
local LISTEN = option_names("backlog", "reuse_port", "v6_only", unpack(OF_SOCKETS))
local UDP = option_names("peer", "broadcast", "reuse", "send_buffer", "receive_buffer", "real")

local function check_options(what, options, known)
  if options == nil then
    return {}
  elseif type(options) == "number" then
    error(format("%s: the port is a part of the address: write \"host:%s\"", what, options), 3)
  elseif type(options) == "string" then
    error(format("%s: expected a table of options after the address, got a string; write %s(\"host:port\"), "
      .. "with a dot", what, what), 3)
  elseif type(options) ~= "table" then
    error(format("%s: expected a table of options, got %s", what, type(options)), 3)
  end
  for name in next, options do
    if not known[name] or type(name) ~= "string" then
      local shown = type(name) == "string" and name or type(name)
      local advice = name == "timeout" and "; write async.with_timeout(ms, fn) around the call"
        or core.advise(name, unpack(known))
      error(format("%s: unknown option '%s'%s", what, shown, advice), 3)
    end
  end
  return options
end

-------------------------------------------------------------------------------------------- lookups

-- The addresses of "name:port"; of any other address, only itself. `real`: not in a simulated
-- network.
local function find(address, what, real)
  local host, port = core.split(address, what)
  if not host then
    return { address }
  end
  return core.lookup(host, port, real)
end

---Looks up a name. Returns a list of addresses, or nil and an error.
function net.lookup(address)
  return find(address, "net.lookup")
end

-- The first address of a name: for addresses that are not tried one after the other.
local function find_one(address, what, real)
  local found, err = find(address, what, real)
  return found and found[1], err
end

----------------------------------------------------------------------------------------- connecting

local function is_v6(address)
  return sub(address, 1, 1) == "["
end

-- Puts IPv6 and IPv4 addresses in turn, beginning with the family of the first.
local function interleave(addresses)
  local families, result = { [true] = {}, [false] = {} }, {}
  for i = 1, #addresses do
    local family = families[is_v6(addresses[i])]
    family[#family + 1] = addresses[i]
  end
  local first = is_v6(addresses[1])
  for i = 1, #addresses do
    result[#result + 1] = families[first][i]
    result[#result + 1] = families[not first][i]
  end
  return result
end

-- Attempts that run at the same time. The first stream is kept in `stream`; others are closed.
local function attempt(race, address, options)
  race.running = race.running + 1
  race.tasks[#race.tasks + 1] = run(function()
    local stream, err = core.connect(address, options, options.local_address)
    race.running = race.running - 1
    race.err = race.err or err
    if stream and race.stream then
      stream:close()
    else
      race.stream = stream or race.stream
    end
    race.news:set()
  end)
end

local Race = {
  __close = function(race)
    if race.stream and not race.won then
      race.stream:close()
    end
  end,
}

local function await_news(race, ms)
  if ms then
    move_on_after(ms, race.news.wait, race.news)
  else
    race.news:wait()
  end
  race.news:clear()
end

local function connect_first(addresses, options)
  local race <close> = setmetatable({ running = 0, tasks = {}, news = new_event() }, Race)
  scope(function()
    for i = 1, #addresses do
      attempt(race, addresses[i], options)
      await_news(race, addresses[i + 1] and ATTEMPT_DELAY)
      if race.stream then
        break
      end
    end
    while not race.stream and race.running > 0 do
      await_news(race)
    end
    for i = 1, #race.tasks do
      close(race.tasks[i])
    end
  end)
  race.won = race.stream ~= nil
  return race.stream, not race.stream and race.err or nil
end

---Connects to an address. Returns a stream, or nil and an error.
function net.connect(address, options)
  options = check_options("net.connect", options, CONNECT)
  local addresses, err = find(address, "net.connect", options.real)
  if not addresses then
    return nil, err
  elseif #addresses == 1 then
    return core.connect(addresses[1], options, options.local_address)
  end
  return connect_first(interleave(addresses), options)
end

------------------------------------------------------------------------------------------ listening

local function listen(address, options, what)
  local found, err = find_one(address, what, options.real)
  if not found then
    return nil, err
  end
  return core.listen(found, options)
end

---Listens on an address. Returns a listener, or nil and an error.
function net.listen(address, options)
  return listen(address, check_options("net.listen", options, LISTEN), "net.listen")
end

---Listens on an address and calls a function for each connection, in a task of its own. Returns a
---server, or nil and an error. The rest is in a file that runs when it is first needed.
function net.serve(...)
  net.serve = core.serve_file()(orrery, core, {
    check_options = check_options,
    find_one = find_one,
    listen = listen,
    listen_options = function()
      return unpack(LISTEN)
    end,
    option_names = option_names,
  })
  return net.serve(...)
end

------------------------------------------------------------------------------------ other endpoints

---Opens a datagram socket on an address. Returns it, or nil and an error.
function net.udp(address, options)
  if type(address) == "table" and options == nil then
    address, options = nil, address
  end
  options = check_options("net.udp", options, UDP)
  if address == nil and options.peer == nil then
    error("net.udp: expected an address, or the option peer", 2)
  end
  local mine, peer, err
  if address ~= nil then
    mine, err = find_one(address, "net.udp", options.real)
  end
  if not err and options.peer ~= nil then
    peer, err = find_one(options.peer, "net.udp: option peer", options.real)
  end
  if err then
    return nil, err
  end
  return core.udp(mine, options, peer)
end

---Returns two connected streams, or nil and an error.
net.pair = core.pair

---Returns the reader and the writer of a pipe, or nil and an error.
net.pipe = core.pipe

---Copies everything from one stream to another. Returns how many bytes; or nil, an error, and how
---many bytes went through.
net.copy = core.copy

-- The stream `stdin`, `stdout` or `stderr` of the process: the one that was opened before, or a new
-- one if there is none, a script has closed it, or a task was cancelled in the middle of a write.
function net.standard(name, descriptor, before)
  if before and core.is_sound(before) then
    return before
  elseif before then
    before:close()
  end
  local stream, err = core.standard(descriptor)
  if not stream then
    local closed = err.code == "EBADF"
    error(format("orrery.%s cannot be used: %s", name,
      closed and "the process was started without it" or err.message), 3)
  end
  return stream
end
