-- Tables of about a megabyte, there and back, beside lua-cjson: the typed copy, and JSON text of ours.

package.path = package.path .. ";" .. (arg[0]:match("^(.*/)") or "./") .. "?.lua"
local figure = require "figure"
local cjson = require "cjson"
local orrery = require "orrery"
local values, json = orrery.values, orrery.json
local hrtime = orrery.loop.hrtime

collectgarbage("incremental")
cjson.encode_number_precision(14) -- its most, and still not enough for every float

local function list(count, make)
  local result = {}
  for i = 1, count do
    result[i] = make(i)
  end
  return result
end

local function nested(depth)
  if depth == 0 then
    return { left = 1, right = "leaf" }
  end
  return { left = nested(depth - 1), right = nested(depth - 1), name = "node" .. depth }
end

local shapes = {
  { "integers", list(150000, function(i) return i * 7919 % 1000003 end) },
  { "floats", list(60000, function(i) return i / 7 end) },
  { "short_strings", list(80000, function(i) return "item " .. i end) },
  { "records", list(16000, function(i)
    return { id = i, name = "user " .. i, score = i / 4, active = i % 2 == 0 }
  end) },
  { "nested_maps", nested(14) },
  { "large_strings", list(4, function(i) return string.char(96 + i):rep(256 * 1024) end) },
  { "one_record", { id = 1, name = "user", score = 0.5, active = true } },
}

-- Milliseconds for one there and back; small ones many times.
local function measure(encode, decode, value, times)
  return function()
    local start = hrtime()
    for _ = 1, times do
      decode(encode(value))
    end
    return (hrtime() - start) / times
  end
end

for _, shape in ipairs(shapes) do
  local name, value = shape[1], shape[2]
  local times = name == "one_record" and 20000 or 3
  local unit, scale = "ms", 1
  if times > 3 then
    unit, scale = "us", 1000
  end
  local ours, text, theirs = figure.alternate {
    measure(values.encode, values.decode, value, times),
    measure(json.encode, json.decode, value, times),
    measure(cjson.encode, cjson.decode, value, times),
  }
  figure.line("values_" .. name, ours * scale, unit, ours / theirs, "cjson")
  figure.line("json_" .. name, text * scale, unit, text / theirs, "cjson")
  figure.line("cjson_" .. name, theirs * scale, unit)
end
