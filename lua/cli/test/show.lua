-- Two values, for people who compare them: whether they are the same, where they differ first, and how.

local pretty = require "orrery.pretty"

local show = {}
local DEPTH, ITEMS = 12, 1000
local LINES = 400 -- more are not compared line by line: that takes the product of their numbers

---A value as text, in several lines if it is long.
function show.value(value)
  return pretty(value, { depth = DEPTH, items = ITEMS })
end

-- How a field is written behind its table.
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
    return true -- being compared already: what differs is found there
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
