-- Lua versions of library functions for calls that may take long: in Lua they can be interrupted.
-- The C functions that call these have checked the arguments, and handle small calls themselves.
-- Errors are raised at the script's call. The chunk's argument is a table of C functions; it
-- returns a table for each library.

local tools = ...
local argument_error, join, results_max, longest = tools.argument_error, tools.join, tools.results_max, tools.longest
local error, getmetatable, pcall, select, type = error, getmetatable, pcall, select, type
local tointeger, min, ult = math.tointeger, math.min, math.ult
local sub, byte, char, format, rep = string.sub, string.byte, string.char, string.format, string.rep
local find, gsub = tools.find, tools.gsub
local upper, lower, reverse = string.upper, string.lower, string.reverse
local move, unpack, sort, pack = table.move, table.unpack, table.sort, table.pack
local utf8_char, utf8_len = utf8.char, utf8.len

local BLOCK <const> = 4096
local BYTES <const> = 65536
local QUOTED <const> = 8192
local CALLER <const> = 3 -- the level for error(): this function, the C function, the script

-- Returns the length of a list as Lua's own functions compute it.
local function length(t)
  return tointeger(#t) or error("object length is not an integer", CALLER + 1)
end

local function too_large()
  error("resulting string too large", CALLER + 1)
end

-- Concatenates strings without reading all of them in one call.
local function join_all(parts, separator)
  local count = #parts
  while count > BLOCK do
    local joined = {}
    for first = 1, count, BLOCK do
      joined[#joined + 1] = join(parts, separator, first, min(first + BLOCK - 1, count))
    end
    parts, count = joined, #joined
  end
  return count == 0 and "" or join(parts, separator, 1, count)
end

---------------------------------------------------------------------------------------------- table

local in_table = {}

-- Reads the next block of elements; a table with metamethods is read element by element.
local function read_block(list, first, last)
  local block = {}
  for i = first, last do
    block[i - first + 1] = list[i]
  end
  return block
end

function in_table.concat(list, separator, first, last, plain)
  separator, first, last = separator or "", tointeger(first or 1), tointeger(last or length(list))
  local parts, size = {}, 0
  while first <= last do
    local final = ult(last - first, BLOCK) and last or first + BLOCK - 1
    local block, offset = list, 0
    if not plain then
      block, offset = read_block(list, first, final), first - 1
    end
    local text, bad = join(block, separator, first - offset, final - offset)
    if not text then
      error(format("invalid value (%s) at index %d in table for 'concat'", type(block[bad]), offset + bad), CALLER)
    end
    size = size + #text + #separator
    if size - #separator > longest then
      too_large()
    end
    parts[#parts + 1] = text
    if final == last then
      break -- before the index wraps around
    end
    first = final + 1
  end
  return join_all(parts, separator)
end

-- These move elements as Lua does, one by one, or in blocks where that makes no difference.
local function move_up(from, first, last, to, target, step) -- begins with the last element
  while last >= first do
    local start = last - first < step and first or last - step + 1
    if step == 1 then
      target[to + (last - first)] = from[last]
    else
      move(from, start, last, to + (start - first), target)
    end
    if start == first then
      break
    end
    last = start - 1
  end
end

local function move_down(from, first, last, to, target, step)
  while first <= last do
    local final = last - first < step and last or first + step - 1
    if step == 1 then
      target[to] = from[first]
    else
      move(from, first, final, to, target)
    end
    if final == last then
      break
    end
    to, first = to + (final - first) + 1, final + 1
  end
end

-- Returns how many elements one call moves.
local function step_of(list)
  return getmetatable(list) == nil and BLOCK or 1
end

function in_table.move(from, first, last, to, target, plain)
  local step = plain and BLOCK or 1
  if to > last or to <= first or from ~= target then
    move_down(from, first, last, to, target, step)
  else
    move_up(from, first, last, to, target, step)
  end
  return target
end

function in_table.insert(list, ...)
  local last = length(list) + 1
  local count = select("#", ...)
  if count == 1 then
    list[last] = ...
    return
  elseif count ~= 2 then
    error("wrong number of arguments to 'insert'", CALLER)
  end
  local position, value = ...
  position = tointeger(position)
  if position < 1 or position > last then
    argument_error("table.insert", 2, "position out of bounds")
  end
  move_up(list, position, last - 1, position + 1, list, step_of(list))
  list[position] = value
end

-- The argument that Lua names for a position out of bounds differs between its versions.
local REMOVE_BLAMES <const> = find(select(2, pcall(table.remove, {}, 5)), "#1", 1, true) and 1 or 2

function in_table.remove(list, position)
  local size = length(list)
  position = position and tointeger(position) or size
  if position ~= size and (position < 1 or position > size + 1) then
    argument_error("table.remove", REMOVE_BLAMES, "position out of bounds")
  end
  local value = list[position]
  move_down(list, position + 1, size, position, list, step_of(list))
  list[position < size and size or position] = nil
  return value
end

function in_table.unpack(list, first, last)
  first, last = tointeger(first or 1), last and tointeger(last) or length(list)
  if first > last then
    return
  end
  local count = last - first + 1
  if count <= 0 or count > results_max then
    error("too many results to unpack", CALLER)
  end
  local values = {}
  for i = 1, count do
    values[i] = list[first + i - 1]
  end
  return unpack(values, 1, count)
end

-- Compares without a comparison function. Lua compares numbers and strings; other values need a
-- metamethod, or raise an error.
local function is_less(a, b)
  local kind = type(a)
  if kind == type(b) and (kind == "number" or kind == "string") or tools.compares(a, b) then
    return a < b
  end
end

-- Compares two numbers or two strings.
local function is_plainly_less(a, b)
  return a < b
end

-- Sorts short runs by insertion; a short list is one run.
local function sort_runs(list, count, less)
  local width = count <= 16 and count or 8
  for first = 1, count, width do
    for i = first + 1, min(first + width - 1, count) do
      local value, at = list[i], i
      while at > first and less(value, list[at - 1]) do
        list[at] = list[at - 1]
        at = at - 1
      end
      list[at] = value
    end
  end
  return width
end

-- Sorts blocks with Lua's own function, which is fast if all elements are numbers, or all strings.
local function sort_blocks(list, count)
  local kind = type(list[1])
  for first = 1, count, BLOCK do
    local last = min(first + BLOCK - 1, count)
    local block = move(list, first, last, 1, {})
    if type(block[1]) ~= kind or #block ~= last - first + 1 or not tools.sorts_quickly(block) then
      return nil
    end
    sort(block)
    move(block, 1, #block, first, list)
  end
  return BLOCK
end

-- Copies a list into a new table, of the right size from the start if that is easy.
local function copy_of(list, count)
  if count <= 200 and getmetatable(list) == nil then
    return { unpack(list, 1, count) }
  end
  local copy = {}
  move_down(list, 1, count, 1, copy, step_of(list))
  return copy
end

-- Merges two neighbouring runs, [first, middle) and [middle, past), from one list into the other.
local function merge(from, to, first, middle, past, less)
  if middle >= past or not less(from[middle], from[middle - 1]) then
    return move_down(from, first, past - 1, first, to, BLOCK)
  end
  local left, right, at = first, middle, first
  while left < middle and right < past do
    local a, b = from[left], from[right]
    if less(b, a) then
      to[at], right = b, right + 1
    else
      to[at], left = a, left + 1
    end
    at = at + 1
  end
  for i = left, middle - 1 do
    to[at], at = from[i], at + 1
  end
  for i = right, past - 1 do
    to[at], at = from[i], at + 1
  end
end

-- Merges runs whatever the comparison returns, so it always ends and keeps every element.
function in_table.sort(list, less)
  local count = length(list)
  if count < 2 then
    return
  elseif count >= 0x7fffffff then
    argument_error("table.sort", 1, "array too big")
  elseif less ~= nil and type(less) ~= "function" then
    argument_error("table.sort", 2, "function expected, got " .. type(less))
  end
  local from = copy_of(list, count)
  local width = not less and count > BLOCK and sort_blocks(from, count)
  less = less or width and is_plainly_less or is_less
  width = width or sort_runs(from, count, less)
  local to = width < count and copy_of(from, count)
  while width < count do
    for first = 1, count, 2 * width do
      merge(from, to, first, min(first + width, count + 1), min(first + 2 * width, count + 1), less)
    end
    from, to, width = to, from, 2 * width
  end
  move_down(from, 1, count, 1, list, step_of(list))
end

--------------------------------------------------------------------------------------------- string

local in_string = {}

function in_string.rep(text, count, separator)
  separator = separator or ""
  count = tointeger(count) - 1 -- parts that a separator follows
  local each = text .. separator
  local block = rep(each, 256)
  return rep(block, count // 256) .. rep(each, count % 256) .. text
end

-- Makes a function that handles each byte work on pieces of a long string.
local function by_pieces(change)
  return function(text)
    local parts = {}
    for first = 1, #text, BYTES do
      parts[#parts + 1] = change(sub(text, first, first + BYTES - 1))
    end
    return join_all(parts, "")
  end
end

in_string.upper, in_string.lower = by_pieces(upper), by_pieces(lower)

function in_string.reverse(text)
  local parts = {}
  for last = #text, 1, -BYTES do
    parts[#parts + 1] = reverse(sub(text, last - min(BYTES, last) + 1, last))
  end
  return join_all(parts, "")
end

local function for_many_arguments(make)
  return function(...)
    local values = pack(...)
    local parts = {}
    for first = 1, values.n, 256 do
      parts[#parts + 1] = make(unpack(values, first, min(first + 255, values.n)))
    end
    return join_all(parts, "")
  end
end

in_string.char = for_many_arguments(char)

-- Returns what %q writes for a byte that it escapes, together with a digit after it.
local function escaped(text)
  local value = byte(text)
  if value == 34 or value == 92 or value == 10 then -- a quote, a backslash, a line break
    return "\\" .. text
  elseif #text == 2 then
    return format("\\%03d%s", value, sub(text, 2))
  end
  return format("\\%d", value)
end

-- Formats a long text as format("%q", text) does, with our own gsub, which can be suspended.
local function quoted(text)
  local escapes = gsub(text, '[%c"\\]%d?', escaped)
  if #escapes > longest - 2 then
    too_large()
  end
  return '"' .. escapes .. '"'
end

function in_string.format(text, ...)
  local values, used = pack(...), 0
  local parts, size, first = {}, 0, 1
  while first <= #text do
    local last, count, quotes = tools.next_piece(text, first)
    local value = values[used + 1]
    local part
    if quotes and type(value) == "string" and #value > QUOTED then
      part = quoted(value)
    else
      part = format(sub(text, first, last), unpack(values, used + 1, min(used + count, values.n)))
    end
    size = size + #part
    if size > longest then
      too_large()
    end
    parts[#parts + 1] = part
    used, first = used + count, last + 1
  end
  return join_all(parts, "")
end

----------------------------------------------------------------------------------------------- utf8

local in_utf8 = { char = for_many_arguments(utf8_char) }

local function is_continuation(text, at)
  local value = byte(text, at)
  return value and value & 0xC0 == 0x80
end

function in_utf8.len(text, first, last, lax)
  local count = 0
  while first <= last do
    local final = min(first + BYTES - 1, last)
    -- Between two characters, if there are any.
    for at = final, final == last and last or final - 8, -1 do
      if final < last and not is_continuation(text, at + 1) then
        final = at
        break
      end
    end
    local some, bad = utf8_len(text, first, final, lax)
    if not some then
      return some, bad
    end
    count, first = count + some, final + 1
  end
  return count
end

----------------------------------------------------------------------------------------------- base

local base = {}

-- The iterator for values with an __index.
function base.ipairs(list, i)
  i = i + 1
  local value = list[i]
  if value ~= nil then
    return i, value
  end
end

-- Reads everything that a reader function returns, piece by piece; returns nil and an error if it
-- fails.
function base.read_all(fn)
  local parts, size = {}, 0
  while true do
    local ok, piece = pcall(fn)
    if not ok then
      return nil, piece
    elseif piece == nil or piece == "" then
      return join_all(parts, "")
    elseif type(piece) ~= "string" and type(piece) ~= "number" then
      return nil, "reader function must return a string"
    end
    size = size + #(piece .. "")
    if size > longest then
      return nil, "chunk is too long"
    end
    parts[#parts + 1] = piece
  end
end

return { table = in_table, string = in_string, utf8 = in_utf8, _G = base }
