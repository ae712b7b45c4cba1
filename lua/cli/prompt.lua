-- The part of the prompt that runs in the scripts' Lua state: it shows values and completes names.
-- The chunk's arguments are the printer of values, whether it may use colours, and a function that
-- writes milliseconds for people. It returns a table of functions for C.

local pretty, coloured, duration = ...
local error, getmetatable, ipairs, next, pairs, print, rawget, rawset, setmetatable, type =
  error, getmetatable, ipairs, next, pairs, print, rawget, rawset, setmetatable, type
local concat, select, sort = table.concat, select, table.sort -- the user may change the globals
local globals = _G

local M = {}

local COMMANDS = { ".exit", ".help", ".tasks", ".timers" }

local KEYWORDS = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not",
  "or", "repeat", "return", "then", "true", "until", "while",
}

M.help = [[
Each line runs as a task: it may wait, and Ctrl-C cancels it and nothing else.  Tasks that it has started go on when it
is done.  The value of an expression is printed.  A line that is not complete is continued.

  async, loop, events, ...   the modules of the API are globals; so are orrery and await
  .tasks                     the tree of tasks
  .timers                    the timers that are set
  .help                      this
  .exit, or Ctrl-D           cancels what is left, lets it clean up, and ends

Locals live as long as their line, as in lua: leave out `local` to keep something.  Tab completes names.]]

---Makes the modules of the API globals, unless the name is in use.
function M.provide(orrery)
  for name, module in pairs(orrery) do
    if type(name) == "string" and rawget(globals, name) == nil and name ~= "version" then
      rawset(globals, name, module)
    end
  end
  if rawget(globals, "orrery") == nil then
    rawset(globals, "orrery", orrery)
  end
  if rawget(globals, "await") == nil then
    rawset(globals, "await", orrery.async.await)
  end
  M.take_input(orrery)
end

---The prompt reads standard input itself from now on: closes the stream that a script has opened,
---and puts something in its place that says so.
function M.take_input(orrery)
  local streams = (getmetatable(orrery) or {}).streams
  if not streams then
    return
  elseif streams.stdin then
    streams.stdin:close()
  end
  rawset(orrery, "stdin", setmetatable({}, {
    __index = function()
      error("orrery.stdin cannot be used at the prompt, which reads standard input itself; use it in a script", 2)
    end,
  }))
end

---Prints the values of a line.
function M.show(...)
  local texts = {}
  for i = 1, select("#", ...) do
    texts[i] = pretty((select(i, ...)), { colour = coloured })
  end
  print(concat(texts, "\t"))
end

function M.timers(timers)
  local lines = {}
  for i, timer in ipairs(timers) do
    local every = timer:get_repeat()
    lines[i] = "due in " .. duration(timer:get_due_in()) .. (every > 0 and ", every " .. duration(every) or "")
  end
  sort(lines)
  print(#lines > 0 and concat(lines, "\n") or "no timer is active")
end

-- Returns where the fields of a value are looked up besides in the value itself. Calls no function
-- of the user.
local function behind(value)
  local meta = getmetatable(value)
  if type(meta) ~= "table" then
    return nil
  end
  local index = rawget(meta, "__index")
  return type(index) == "table" and index or type(value) == "userdata" and index == nil and meta or nil
end

local function field(value, name)
  for _ = 1, 8 do
    if type(value) == "table" then
      local found = rawget(value, name)
      if found ~= nil then
        return found
      end
    end
    value = behind(value)
    if value == nil then
      return nil
    end
  end
end

---Returns the names in a value that begin with `start`, and their values.
local function fields(value, start, only_functions)
  local found = {}
  for _ = 1, 8 do
    if type(value) == "table" then
      for name, item in next, value do
        if type(name) == "string" and name:find("^[%a_][%w_]*$") and name:sub(1, #start) == start
          and (start ~= "" or name:sub(1, 1) ~= "_") and not (only_functions and type(item) ~= "function") then
          found[name] = found[name] or item
        end
      end
    end
    value = behind(value)
    if value == nil then
      break
    end
  end
  return found
end

local function candidates(text)
  local command = text:match("^%s*(%.%a*)$")
  local found = {}
  if command then
    for _, name in ipairs(COMMANDS) do
      found[name] = name:sub(1, #command) == command and true or nil
    end
    return found, command
  end
  local path = text:match("[%a_][%w_.:]*$")
  if not path then
    return found, ""
  end
  local base, mark, start = path:match("^(.-)([.:]?)([%w_]*)$")
  if mark == "" then
    found = fields(globals, start)
    for _, word in ipairs(KEYWORDS) do
      if word:sub(1, #start) == start then
        found[word] = true
      end
    end
    return found, start
  end
  local value = globals
  for name in base:gmatch("[%w_]+") do
    value = field(value, name)
  end
  return fields(value, start, mark == ":"), start
end

local function common(a, b)
  local length = 0
  while length < #a and a:byte(length + 1) == b:byte(length + 1) do
    length = length + 1
  end
  return a:sub(1, length)
end

---Returns what to insert and, after newlines, the possible names; nil for nothing.
function M.complete(text)
  local found, start = candidates(text)
  local names, shared = {}, nil
  for name in pairs(found) do
    names[#names + 1] = name
    shared = shared and common(shared, name) or name
  end
  if #names == 0 then
    return nil
  elseif #names == 1 then
    local rest = names[1]:sub(#start + 1)
    return rest .. (type(found[names[1]]) == "function" and "(" or "")
  end
  sort(names)
  return shared:sub(#start + 1) .. "\n" .. concat(names, "\n")
end

return M
