-- Prints values for people: `pretty(value, options)` returns a string that looks like Lua code.
--
--   { 1, 2, name = "moon", inner = { ... } }
--
-- Tables are read raw, so that printing changes nothing; but a table with `__tostring` is printed
-- as that says. A table that fits on one line is on one line; else each field has its own. Keys are
-- always in the same order: numbers, strings, the rest. A table inside itself is `<cycle>`, one
-- that is too deep `{ ... }`.

local duration = ... -- writes milliseconds for people
local coroutine, debug, math, table, utf8 = coroutine, debug, math, table, utf8
-- The script may have changed the globals.
local getmetatable, next, pcall, rawget, tonumber, tostring, type =
  getmetatable, next, pcall, rawget, tonumber, tostring, type

local M = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch("%a+") do
  KEYWORDS[word] = true
end

local COLOURS = {
  string = "\27[32m", number = "\27[33m", boolean = "\27[33m", ["nil"] = "\27[2m",
  ["function"] = "\27[36m", thread = "\27[36m", userdata = "\27[36m", note = "\27[2m",
}
local PLAIN = "\27[0m"

---Returns how many columns a text takes, counted in characters.
local function columns(text)
  return utf8.len(text) or #text
end

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"' }

local function escape_byte(byte)
  return ("\\x%02X"):format(byte:byte())
end

---Returns a string in quotes, as Lua would read it.
function M.quote(text)
  local quoted = text:gsub('[%c\\"\127]', function(c) return ESCAPES[c] or escape_byte(c) end)
  if not utf8.len(quoted) then
    quoted = quoted:gsub("[\128-\255]", escape_byte)
  end
  return '"' .. quoted .. '"'
end

local function number(value)
  if value ~= value then
    return "nan"
  elseif value == math.huge or value == -math.huge then
    return value > 0 and "inf" or "-inf"
  end
  local short = tostring(value)
  if math.type(value) == "integer" or tonumber(short) == value then
    return short
  end
  local long = ("%.17g"):format(value)
  return long:find("^-?%d+$") and long .. ".0" or long
end

---For each kind of handle of the API, how to get its state.
local STATES = {
  task = function(task) return ("%s: %s"):format(M.quote(task.name or "(unnamed)"), task:status()) end,
  future = function(future) return future:is_completed() and "completed" or "pending" end,
  event = function(event) return event:is_set() and "set" or "clear" end,
  queue = function(queue) return ("%d waiting"):format(queue:size()) end,
  mutex = function(mutex) return mutex:is_locked() and "locked" or "free" end,
  timer = function(timer)
    if timer:is_active() then
      return "due in " .. duration(timer:get_due_in())
    end
    return timer:is_closing() and "closed" or "stopped"
  end,
}

---Returns `<kind: state>` for a handle of the API; for other userdata, their tostring().
local function handle(value)
  local words = tostring(value)
  local kind = words:match("^orrery%.(%l+)") or words:match("^(task) ")
  if STATES[kind] then
    local ok, state = pcall(STATES[kind], value)
    return ok and ("<%s%s%s>"):format(kind, kind == "task" and " " or ": ", state) or "<" .. words .. ">"
  end
  return "<" .. words .. ">"
end

local function function_place(value)
  local info = debug and debug.getinfo and debug.getinfo(value, "S")
  if not info then
    return tostring(value)
  end
  return info.what == "C" and "<C function>" or ("<function %s:%d>"):format(info.short_src, info.linedefined)
end

local function atom(value)
  local kind = type(value)
  if kind == "string" then
    return M.quote(value)
  elseif kind == "number" then
    return number(value)
  elseif kind == "function" then
    return function_place(value)
  elseif kind == "userdata" then
    return handle(value)
  elseif kind == "thread" then
    return "<coroutine: " .. coroutine.status(value) .. ">"
  end
  return tostring(value)
end

local RANK = { number = 1, string = 2, boolean = 3 }

local function comes_before(a, b)
  local rank_a, rank_b = RANK[type(a)] or 4, RANK[type(b)] or 4
  if rank_a ~= rank_b then
    return rank_a < rank_b
  elseif rank_a <= 2 then
    return a < b
  end
  return tostring(a) < tostring(b)
end

---Returns the keys of a table that are not in its list part, sorted.
local function other_keys(value, length, sorted)
  local keys = {}
  for key in next, value do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      keys[#keys + 1] = key
    end
  end
  if sorted then
    table.sort(keys, comes_before)
  end
  return keys
end

local function list_length(value)
  local length = 0
  while rawget(value, length + 1) ~= nil do
    length = length + 1
  end
  return length
end

local render

local function paint(state, kind, text)
  return state.colour and COLOURS[kind] and COLOURS[kind] .. text .. PLAIN or text
end

local function render_key(state, key)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") and not KEYWORDS[key] then
    return key, columns(key)
  end
  local text, width = render(state, key, state.depth) -- tables as keys are not opened
  return "[" .. text .. "]", width and width + 2
end

---Returns every field as text, and their width on one line; nil if they cannot be on one.
local function render_fields(state, value, level)
  local fields, total = {}, 0
  local function add(text, width)
    fields[#fields + 1] = text
    total = total and width and total + width + 2
  end
  local length = list_length(value)
  local keys = other_keys(value, length, state.sorted)
  for i = 1, math.min(length, state.items) do
    add(render(state, rawget(value, i), level + 1))
  end
  for i = 1, math.min(#keys, math.max(state.items - length, 0)) do
    local key, key_width = render_key(state, keys[i])
    local text, width = render(state, rawget(value, keys[i]), level + 1)
    add(key .. " = " .. text, key_width and width and key_width + 3 + width)
  end
  local left = length + #keys - state.items
  if left > 0 then
    local note = ("... %d more"):format(left)
    add(paint(state, "note", note), #note)
  end
  return fields, total
end

local function render_table(state, value, level)
  if next(value) == nil then
    return "{}", 2
  elseif state.open[value] then
    return paint(state, "note", "<cycle>"), 7
  elseif level >= state.depth then
    return paint(state, "note", "{ ... }"), 7
  end
  state.open[value] = true
  local fields, total = render_fields(state, value, level)
  state.open[value] = nil
  if total and total + 2 + level * 2 <= state.width then
    return "{ " .. table.concat(fields, ", ") .. " }", total + 2
  end
  local indent = ("  "):rep(level + 1)
  return "{\n" .. indent .. table.concat(fields, ",\n" .. indent) .. ",\n" .. ("  "):rep(level) .. "}"
end

---Returns the result of a table's `__tostring`; nil if it has none, or it fails.
local function own_words(value)
  local meta = getmetatable(value)
  if type(meta) ~= "table" or not rawget(meta, "__tostring") then
    return nil
  end
  local ok, text = pcall(tostring, value)
  return ok and text or nil
end

---Returns the text, and how many columns it takes; nil for the columns if it has several lines.
function render(state, value, level)
  local text
  if type(value) == "table" then
    text = own_words(value)
    if not text then
      return render_table(state, value, level)
    end
  else
    text = atom(value)
  end
  return paint(state, type(value), text), not text:find("\n", 1, true) and columns(text) or nil
end

---@class pretty.options
---@field depth? integer  how many nested tables are opened; 6
---@field width? integer  the longest line; 80
---@field items? integer  how many fields of a table are shown; 100
---@field colour? boolean with the colours of a terminal; false
---@field sorted? boolean false: keys in any order

---@param value any
---@param options? pretty.options
---@return string
function M.pretty(value, options)
  options = options or {}
  return (render({
    depth = options.depth or 6,
    width = options.width or 80,
    items = options.items or 100,
    colour = options.colour,
    sorted = options.sorted ~= false,
    open = {},
  }, value, 0))
end

return setmetatable(M, { __call = function(_, value, options) return M.pretty(value, options) end })
