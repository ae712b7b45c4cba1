-- Compares two values for people: whether they are equal, where they first differ, and how.

local pretty = require "orrery.pretty"

local show = {}
local DEPTH, ITEMS = 12, 1000
-- Longer texts are not compared line by line: the time grows with the product of their lengths.
local LINES = 400

---Returns a value as text, in several lines if it is long.
function show.value(value)
  return pretty(value, { depth = DEPTH, items = ITEMS })
end

-- Returns how a field is written after its table.
local function step(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then
    return "." .. key
  end
  return "[" .. pretty(key, { depth = 0 }) .. "]"
end

local function same(a, b, seen)
  if a == b or (a ~= a and b ~= b) then
    return true
  elseif type(a) ~= "table" or type(b) ~= "table" then
    return false
  elseif seen[a] and seen[a][b] then
    return true -- they are being compared already, and a difference is found there
  end
  seen[a] = seen[a] or {}
  seen[a][b] = true
  for key, value in next, a do
    local equal, path = same(value, rawget(b, key), seen)
    if not equal then
      return false, step(key) .. (path or "")
    end
  end
  for key in next, b do
    if rawget(a, key) == nil then
      return false, step(key)
    end
  end
  return true
end

---Returns whether two values are deeply equal; if not, and they are tables, where they first
---differ.
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

-- Returns the length of the longest common rest of two lists, from each pair of positions.
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

---Returns the difference of two values as lines: expected lines with a minus, actual ones with a
---plus.
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
