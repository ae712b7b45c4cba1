-- `events`: handlers by name, in the order of their registration. The chunk's arguments are the
-- module's table and a private table:
--   new_handler(id, once)  an object that counts the timeouts of one handler
--   id_of(handler), forget(handler)   its id; no emit that has begun calls it any more
--   new_emit(events, open, check_self, find_open, remove)   makes events.emit(), which looks up
--       open[name] and calls handlers at once; a handler that is called once is removed first
--   set_open(emit, open)   has that function look up names in another table
--   call_soon(list, first, last, name, data)   has handlers called soon
--   start_soon(handler, name, fn, ...)   starts a task soon
--   lists                  the C part looks up lists[1][name], see `matching`
--   is_held()              whether events must wait: for a preempted task or a script's body
--   enable(handler), is_disabled(handler), is_of(handler, script)
--   is_own(handler)        whether it belongs to the script that runs now
--   where()                the position of the calling script if it is to be remembered, else nil
--   limit                  how many events of the host may be queued
--   drops_oldest, coalesces   what to do when the queue is full; else the event is refused
--   STARTED, QUEUED, DROPPED, COALESCED, REFUSED   the results of host.emit()
--
-- An entry is one registration. The entries that match a name are looked up once, and kept until a
-- handler is registered or removed: as a list that has for each entry its handler and its function,
-- and true at 0 if any of them is called once. Such a list never changes, so an emit iterates over
-- it whatever its handlers do.
--
-- A group has the entries of one name, in the order of registration: a million of them need not be
-- sorted. An entry that has lost the name stays there, stale, until these are as many as the
-- others.
--
-- A registration belongs to the script that made it. Every script's events reach all handlers, but
-- a script lists, turns off and clears only its own; the id of another script's handler is like an
-- unknown id.

local orrery, private = ...
local error, ipairs, next, pairs, type, sort = error, ipairs, next, pairs, type, table.sort
local find, format, sub = string.find, string.format, string.sub
local new_handler, id_of, forget = private.new_handler, private.id_of, private.forget
local call_soon, start_soon, is_held = private.call_soon, private.start_soon, private.is_held
local STARTED, QUEUED, DROPPED = private.STARTED, private.QUEUED, private.DROPPED
local COALESCED, REFUSED = private.COALESCED, private.REFUSED
local set_open = private.set_open
local enable, is_disabled, is_own, where = private.enable, private.is_disabled, private.is_own, private.where

local events = {}
local entries = {} -- id -> entry
local by_name = {} -- name, or prefix with its star -> group
local stars = {} -- the names that are prefixes
local lists = private.lists
local matching = {} -- name -> list, made when needed
local open = {} -- the same lists, for names that scripts may emit
local reserved = {} -- names, or prefixes with their star, that only the host may emit
local last_id = 0
local emit

-- A deadline may end a script between any two lines. What emit() looks up then is still right: a
-- change comes after this.
local function forget_lists()
  matching, open = {}, {}
  lists[1] = matching
  set_open(emit, open)
end

-- Scripts with their own globals call the methods on a read-only view of the table, which has the
-- same functions.
local function check_self(self, method)
  if self ~= events and (type(self) ~= "table" or self[method] ~= events[method]) then
    error(format("events:%s: call it with a colon", method), 3)
  end
end

local function check_name(name, method, may_have_star, level)
  if type(name) ~= "string" or name == "" then
    local what = name == "" and "an empty string" or type(name)
    error(format("events:%s: expected the name of an event, got %s", method, what), level)
  end
  local star = find(name, "*", 1, true)
  if star and not (may_have_star and star == #name) then
    local message = "events:%s: '%s': a star is allowed only at the end of a name, and only to listen to events"
    error(format(message, method, name), level)
  end
end

local function prefix_matches(pattern, name)
  return sub(pattern, -1) == "*" and sub(name, 1, #pattern - 1) == sub(pattern, 1, -2)
end

-- Returns the entries of several groups, each once, in the order of registration.
local function merge(patterns)
  local found, seen = {}, {}
  for _, pattern in ipairs(patterns) do
    for _, entry in ipairs(by_name[pattern].array) do
      if entry.names[pattern] and not seen[entry] then
        seen[entry] = true
        found[#found + 1] = entry
      end
    end
  end
  sort(found, function(a, b) return a.id < b.id end)
  return found
end

local function find_matching(name)
  local patterns, list, size = {}, {}, 0
  if by_name[name] then
    patterns[1] = name
  end
  for pattern in pairs(stars) do
    if by_name[pattern] and prefix_matches(pattern, name) then
      patterns[#patterns + 1] = pattern
    end
  end
  local only = #patterns == 1 and patterns[1]
  local found = only and by_name[only].array or merge(patterns)
  for _, entry in ipairs(found) do
    if not only or entry.names[only] then
      list[size + 1], list[size + 2] = entry.handler, entry.fn
      size = size + 2
      list[0] = list[0] or entry.once or nil
    end
  end
  matching[name] = list
  return list
end

-- A deadline may end a script inside these functions. So they forget the lists first, and a name is
-- in `entry.names` before it is anywhere else, and until it is nowhere else: what was begun can be
-- removed.

local function add_to_group(name, entry)
  by_name[name] = by_name[name] or { array = {}, stale = 0 }
  stars[name] = sub(name, -1) == "*" or nil
  local array = by_name[name].array
  array[#array + 1] = entry
end

-- Returns the entries of a group without those that have lost the name, and without one more.
local function without(array, name, removed)
  local left = {}
  for _, entry in ipairs(array) do
    if entry ~= removed and entry.names[name] then
      left[#left + 1] = entry
    end
  end
  return left
end

local function remove_from_group(name, entry)
  local group = by_name[name]
  if not group then
    return
  end
  group.stale = group.stale + 1
  if 2 * group.stale > #group.array then
    local left = without(group.array, name, entry)
    if #left > 0 then
      by_name[name] = { array = left, stale = 0 }
    else
      by_name[name], stars[name] = nil, nil
    end
  end
end

local function remove(entry, name)
  if not entry.names[name] then
    return false
  end
  forget_lists()
  remove_from_group(name, entry)
  local first = next(entry.names)
  if first == name and next(entry.names, first) == nil then
    forget(entry.handler)
    entries[entry.id] = nil
  end
  entry.names[name] = nil
  return true
end

local function remove_all(entry)
  for name in pairs(entry.names) do
    remove(entry, name)
  end
end

local function register(method, names, fn, once)
  if type(names) ~= "table" then
    names = { names }
  end
  if #names == 0 then
    error(format("events:%s: the list of names is empty", method), 3)
  end
  for _, name in ipairs(names) do
    check_name(name, method, true, 4)
  end
  if type(fn) ~= "function" then
    error(format("events:%s: expected a function, got %s", method, type(fn)), 3)
  end
  local entry = { id = last_id + 1, fn = fn, once = once, names = {}, handler = new_handler(last_id + 1, once) }
  entry.created = where()
  for _, name in ipairs(names) do
    entry.names[name] = true
  end
  forget_lists()
  last_id = entry.id
  entries[entry.id] = entry
  for name in next, entry.names do
    add_to_group(name, entry)
  end
  return entry.id
end

function events:on(names, fn)
  check_self(self, "on")
  return register("on", names, fn, false)
end

function events:once(names, fn)
  check_self(self, "once")
  return register("once", names, fn, true)
end

-- Returns the registration with this id if the running script has made it.
local function find_own(id)
  local entry = entries[id]
  if entry and is_own(entry.handler) then
    return entry
  end
end

-- off(name, id), or off(id) for all its names.
function events:off(name, id)
  check_self(self, "off")
  if id == nil and type(name) == "number" then
    local entry = find_own(name)
    if entry then
      remove_all(entry)
    end
    return entry ~= nil
  end
  check_name(name, "off", true, 3)
  local entry = find_own(id)
  return entry ~= nil and remove(entry, name)
end

function events:clear(name)
  check_self(self, "clear")
  if name ~= nil then
    check_name(name, "clear", true, 3)
  end
  for _, entry in pairs(entries) do
    if name == nil and is_own(entry.handler) then
      remove_all(entry)
    elseif name ~= nil and is_own(entry.handler) then
      remove(entry, name)
    end
  end
end

-- Returns the registrations under a name, or all, for which `includes(handler, ...)` is true, in
-- the order of registration.
local function list_registrations(name, includes, ...)
  local list = {}
  for id, entry in pairs(entries) do
    if includes(entry.handler, ...) then
      for registered in pairs(entry.names) do
        if name == nil or registered == name then
          local disabled = is_disabled(entry.handler)
          list[#list + 1] = { id = id, name = registered, once = entry.once, disabled = disabled }
        end
      end
    end
  end
  sort(list, function(a, b) return a.id < b.id or a.id == b.id and a.name < b.name end)
  return list
end

function events:list(name)
  check_self(self, "list")
  return list_registrations(name, is_own)
end

-- Handlers of the host's events start a little later: by then one may have been disabled.
local function run_once(entry, data)
  if not is_disabled(entry.handler) then
    return entry.fn(data)
  end
end

-- Checks a name that a script emits for the first time since a change.
local function find_open(name)
  check_name(name, "emit", false, 4)
  for pattern in pairs(reserved) do
    if pattern == name or prefix_matches(pattern, name) then
      error(format("events:emit: only the host may emit '%s'", name), 3)
    end
  end
  local list = matching[name] or find_matching(name)
  open[name] = list
  return list
end

-- Removes a handler that is called once, before it is called.
local function remove_called(handler)
  remove_all(entries[id_of(handler)])
end

emit = private.new_emit(events, open, check_self, find_open, remove_called)
events.emit = emit

-- --- For the host --------------------------------------------------------------------------------

local queue, first, last = {}, 1, 0

local function find_queued(name)
  for i = first, last do
    if queue[i].name == name then
      return queue[i]
    end
  end
end

-- Queues an event that comes while the isolate is held.
local function enqueue(name, data)
  local answer = QUEUED
  if last - first + 1 >= private.limit then
    local same = private.coalesces and find_queued(name)
    if same then
      same.data = data
      return COALESCED
    elseif not private.drops_oldest then
      return REFUSED
    end
    queue[first] = nil
    first = first + 1
    answer = DROPPED
  end
  last = last + 1
  queue[last] = { name = name, data = data }
  return answer
end

-- Has the handlers called soon. A handler that is called once is a task from the start: it belongs
-- to its script, although it is removed now.
local function dispatch(name, data)
  local list = matching[name] or find_matching(name)
  local from, count = 1, #list // 2
  for i = 1, list[0] and count or 0 do
    local entry = entries[id_of(list[2 * i - 1])]
    if entry and entry.once then
      call_soon(list, from, i - 1, name, data)
      from = i + 1
      remove_all(entry)
      if not is_disabled(entry.handler) then
        start_soon(entry.handler, name, run_once, entry, data)
      end
    end
  end
  call_soon(list, from, count, name, data)
end

local host = {}

function host.emit(name, data)
  if first <= last or is_held() then
    return enqueue(name, data)
  end
  dispatch(name, data)
  return STARTED
end

-- Called when the isolate is no longer held.
function host.flush()
  while first <= last do
    local event = queue[first]
    queue[first] = nil
    first = first + 1
    dispatch(event.name, event.data)
  end
end

function host.reserve(name)
  reserved[name] = true
  open = {}
  set_open(emit, open)
end

function host.remove(script)
  for _, entry in pairs(entries) do
    if private.is_of(entry.handler, script) then
      remove_all(entry)
    end
  end
end

-- For leak checks: appends a description of each handler of a script to a list.
function host.list_of(script, list)
  if next(entries) == nil then
    return
  end
  for _, registered in ipairs(list_registrations(nil, private.is_of, script)) do
    local created = entries[registered.id].created
    list[#list + 1] = { kind = "event handler", name = registered.name, created = created }
  end
end

function host.enable(id)
  local entry = entries[id]
  if entry then
    enable(entry.handler)
  end
  return entry ~= nil
end

forget_lists()
orrery.events = events
private.host = host
