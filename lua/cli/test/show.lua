-- Values as text, for people who compare them: keys in order, what is inside itself told, long lists of lines compared.

local show = {}
local WIDTH = 80 -- a table that fits is shown in one line
local DEPTH = 8
local LINES = 400 -- more are not compared line by line: that takes the product of their numbers

local function is_name(text)
  return type(text) == "string" and text:find "^[%a_][%w_]*$"
end

local function quote(text)
  return (string.format("%q", text):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("\t", "\\t"))
end

local ranks = { number = 1, string = 2, boolean = 3 }

local function key_before(a, b)
  local ranka, rankb = ranks[type(a)] or 4, ranks[type(b)] or 4
  if ranka ~= rankb then
    return ranka < rankb
  elseif ranka <= 2 then
    return a < b
  end
  return tostring(a) < tostring(b)
end

local function number_text(value)
  if value ~= value then
    return "nan"
  elseif value == math.huge or value == -math.huge then
    return value > 0 and "math.huge" or "-math.huge"
  elseif math.type(value) == "float" then
    local short = string.format("%.14g", value)
    short = tonumber(short) == value and short or string.format("%.17g", value)
    return short:find "[%.e]" and short or short .. ".0"
  end
  return tostring(value)
end

-- The keys of a table that are not its items, in order; and how many items there are.
local function sort_keys(value)
  local keys, length = {}, 0
  while rawget(value, length + 1) ~= nil do
    length = length + 1
  end
  for key in next, value do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, key_before)
  return keys, length
end

local text_of

local function key_text(key)
  return is_name(key) and key or "[" .. text_of(key, "", {}, DEPTH) .. "]"
end

local function table_text(value, indent, above, depth)
  local meta = getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__tostring") then
    local ok, text = pcall(tostring, value)
    return ok and text or "(a table whose __tostring fails)"
  elseif above[value] then
    return "(itself, " .. above[value] .. ")"
  elseif depth >= DEPTH then
    return "{...}"
  elseif next(value) == nil then
    return "{}"
  end
  above[value] = depth == 0 and "the whole" or depth .. " deep"
  local inner, parts = indent .. "  ", {}
  local keys, length = sort_keys(value)
  for i = 1, length do
    parts[i] = text_of(value[i], inner, above, depth + 1)
  end
  for _, key in ipairs(keys) do
    parts[#parts + 1] = key_text(key) .. " = " .. text_of(rawget(value, key), inner, above, depth + 1)
  end
  above[value] = nil
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line + #indent <= WIDTH and not line:find "\n" then
    return line
  end
  return "{\n" .. inner .. table.concat(parts, ",\n" .. inner) .. ",\n" .. indent .. "}"
end

function text_of(value, indent, above, depth)
  local kind = type(value)
  if kind == "string" then
    return quote(value)
  elseif kind == "number" then
    return number_text(value)
  elseif kind == "table" then
    return table_text(value, indent, above, depth)
  end
  return tostring(value)
end

---A value as text, in several lines if it is long.
function show.value(value)
  return text_of(value, "", {}, 0)
end

--------------------------------------------------------------------------------------------------------- differences

local function same(a, b, seen)
  if a == b or (a ~= a and b ~= b) then
    return true
  elseif type(a) ~= "table" or type(b) ~= "table" then
    return false
  elseif seen[a] and seen[a][b] then
    return true -- being compared already: what differs is found there
  end
  seen[a] = seen[a] or {}
  seen[a][b] = true
  for key, value in next, a do
    local equal, path = same(value, rawget(b, key), seen)
    if not equal then
      return false, (is_name(key) and "." .. key or "[" .. text_of(key, "", {}, DEPTH) .. "]") .. (path or "")
    end
  end
  for key in next, b do
    if rawget(a, key) == nil then
      return false, is_name(key) and "." .. key or "[" .. text_of(key, "", {}, DEPTH) .. "]"
    end
  end
  return true
end

---Whether two values are equal all the way down; if not, and they are tables, where they differ first.
function show.same(a, b)
  return same(a, b, {})
end

local function split(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    lines[#lines + 1] = line
  end
  return lines
end

-- How long the longest common rest of two lists is, from each place on.
local function common_rests(a, b)
  local rests = { [#a + 1] = {} }
  for j = 1, #b + 1 do
    rests[#a + 1][j] = 0
  end
  for i = #a, 1, -1 do
    rests[i] = { [#b + 1] = 0 }
    for j = #b, 1, -1 do
      rests[i][j] = a[i] == b[j] and rests[i + 1][j + 1] + 1 or math.max(rests[i + 1][j], rests[i][j + 1])
    end
  end
  return rests
end

local function diff_lines(a, b)
  local rests, out, i, j = common_rests(a, b), {}, 1, 1
  while i <= #a or j <= #b do
    if i <= #a and j <= #b and a[i] == b[j] then
      out[#out + 1] = "  " .. a[i]
      i, j = i + 1, j + 1
    elseif i <= #a and (j > #b or rests[i + 1][j] >= rests[i][j + 1]) then
      out[#out + 1] = "- " .. a[i]
      i = i + 1
    else
      out[#out + 1] = "+ " .. b[j]
      j = j + 1
    end
  end
  return out
end

---What tells two values apart: lines, those expected with a minus, those there are with a plus.
function show.diff(expected, actual)
  local texts = type(expected) == "string" and type(actual) == "string"
  local a = split(texts and expected or show.value(expected))
  local b = split(texts and actual or show.value(actual))
  if #a + #b <= 2 or #a > LINES or #b > LINES then
    return "expected: " .. show.value(expected) .. "\n     got: " .. show.value(actual)
  end
  return "(- expected, + got)\n" .. table.concat(diff_lines(a, b), "\n")
end

return show
