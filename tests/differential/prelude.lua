-- The fixture of the programs in this folder: it makes checks and prints their results.  The
-- interpreter gets it by -e, so that programs that may not read files have it, too.  The script's
-- first argument is how often each check is made: a check that takes microseconds is hardly ever
-- interrupted, but of a thousand some are.  Uses only what untrusted scripts have.

local rounds = math.tointeger(tonumber(arg[1])) or 1
local type, tostring, pairs, print, pcall, select = type, tostring, pairs, print, pcall, select
local format, gsub, concat, sort, math_type = string.format, string.gsub, table.concat, table.sort, math.type
local seen = {}

-- A value as text, the same in every process: without addresses, and with the keys of a table in
-- order.
local function show(value, depth)
  local kind = type(value)
  if kind == "string" then
    value = gsub(value, "0x%x%x%x%x%x%x+", "0x...")
    return (gsub(format("%q", value), "\\\n", "\\n"))
  elseif kind == "number" then
    return math_type(value) == "float" and format("%.17g", value):gsub("^(-?%d+)$", "%1.0") or tostring(value)
  elseif kind ~= "table" then
    return (kind == "nil" or kind == "boolean") and tostring(value) or "<" .. kind .. ">"
  elseif depth > 3 then
    return "{...}"
  end
  local keys, parts = {}, {}
  for key in next, value do
    keys[#keys + 1] = { show(key, depth + 1), key }
  end
  sort(keys, function(a, b) return #a[1] < #b[1] or (#a[1] == #b[1] and a[1] < b[1]) end)
  for i, pair in pairs(keys) do
    parts[i] = "[" .. pair[1] .. "]=" .. show(rawget(value, pair[2]), depth + 1)
  end
  return "{" .. concat(parts, " ") .. "}"
end

local function outcome(ok, ...)
  local parts = {}
  for i = 1, select("#", ...) do
    parts[i] = show((select(i, ...)), 1)
  end
  return (ok and "" or "raises ") .. concat(parts, ", ")
end

-- Prints in one line what a function returns or raises, after its name, which must be new.  Each
-- round calls the function after a pause of another length, so that slices end at other points; the
-- result must be the same each time.
function check(name, fn, most)
  assert(not seen[name], name)
  seen[name] = true
  local first
  for round = 1, most and most < rounds and most or rounds do
    for _ = 1, round * 7919 % 997 do end
    local line = outcome(pcall(fn))
    first = first or line
    if line ~= first then
      print(name .. ": in round " .. round .. " " .. line .. ", and before " .. first)
      return
    end
  end
  print(name .. ": " .. first)
end

-- A check that is made once, because it leaves something behind.
function once(name, fn)
  check(name, fn, 1)
end

-- Runs longer than the short slices of the tests.
function burn(n)
  local x = 0
  for i = 1, n or 20000 do
    x = x + i % 7
  end
  return x
end
