-- Values written to strings and read again: equal and of the same type, or refused with their path.

local check = require "check"
local orrery = require "orrery"
local values, json = orrery.values, orrery.json
local scale = tonumber(os.getenv "ORR_TEST_SCALE") or 1

local function copy(...)
  return values.decode(values.encode(...))
end

-- Equal values of the same type; tables by content.
local function same(a, b)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then
    return false
  end
  if type(a) ~= "table" then
    return a == b and (a ~= 0 or math.type(a) == "integer" or 1 / a == 1 / b) or a ~= a and b ~= b
  end
  for key, value in pairs(a) do
    if not same(value, b[key]) then
      return false
    end
  end
  for key in pairs(b) do
    if a[key] == nil then
      return false
    end
  end
  return true
end

check.test("scalars survive the round trip", function()
  for _, value in ipairs { true, false, 0, 1, -1, 127, 128, 255, 256, -128, -129, 32767, 32768, -32768, -32769, 1 << 31,
    -(1 << 31), (1 << 31) - 1, math.maxinteger, math.mininteger, 0.0, -0.0, 0.1, 1e308, 5e-324, 1 / 0, -1 / 0, 0 / 0,
    2.0 ^ 53, "", "text", "\0\255\n", ("x"):rep(40), ("x"):rep(41), ("x"):rep(70000), json.null } do
    check.truthy(same(value, (copy(value))), tostring(value):sub(1, 40))
  end
end)

check.test("any number of values, nils kept", function()
  check.equal(select("#", copy()), 0)
  check.equal(select("#", copy(nil)), 1)
  check.equal(select("#", copy(1, nil, nil)), 3)
  local a, b, c = copy(nil, "b", false)
  check.truthy(a == nil and b == "b" and c == false)
  check.equal(select("#", copy(table.unpack({}, 1, 5000))), 5000)
end)

check.test("tables of every kind", function()
  local sparse = {}
  for i = 0, 62 do
    sparse[1 << i] = i
  end
  for _, value in ipairs { {}, { 1 }, { 1, 2, 3 }, { a = 1 }, { 1, 2, x = "y" }, { [0] = 0, [-1] = 1 }, { [1.5] = 1, [true] = 2,
    [false] = 3 }, { { { {} } } }, { 1, nil, 3 }, { nil, nil, 3 }, { [1000000] = 1 }, { [math.mininteger] = 1 }, sparse } do
    check.truthy(same(value, (copy(value))))
  end
  check.equal((copy { 1, nil, 3 })[3], 3)
  check.equal((copy { nil, nil, 3 })[3], 3)
end)

check.test("a table that was met twice is one", function()
  local shared, text = { 1 }, ("x"):rep(100)
  local result = copy { shared, { shared }, text, text, [true] = shared }
  check.truthy(rawequal(result[1], result[2][1]) and rawequal(result[1], result[true]))
  check.equal(result[3], result[4])
  local a, b = copy(shared, shared)
  check.truthy(rawequal(a, b), "across values")
  local levels = { {} }
  for i = 2, 150 do -- would be 2^150 if shared tables were written each time
    levels[i] = { levels[i - 1], levels[i - 1] }
  end
  check.truthy(#values.encode(levels[150]) < 10000)
  result = copy(levels[150])
  check.truthy(rawequal(result[1], result[2]))
end)

check.test("the copy is a copy", function()
  local inner = { 1 }
  local outer = { inner = inner }
  local result = copy(outer)
  result.inner[1] = 2
  check.equal(inner[1], 1)
end)

check.test("a table marked as an array stays so", function()
  local result = copy { json.array {}, {}, json.array { 1, 2 } }
  check.truthy(json.is_array(result[1]) and not json.is_array(result[2]) and json.is_array(result[3]))
  check.equal(#result[3], 2)
end)

check.test("a value that cannot be copied is named by its path", function()
  local refused = {
    ["value: a function cannot be copied"] = print,
    ["value: a coroutine cannot be copied"] = coroutine.create(print),
    ["value: a FILE* cannot be copied"] = io.stdout,
    ["value: an event cannot be copied"] = orrery.async.event(),
    ["value: a table with a metatable cannot be copied"] = setmetatable({}, { __index = error, __pairs = error, __len = error }),
    ["value.items[3].callback: a function cannot be copied"] = { items = { 1, 2, { callback = print } } },
    ['value["odd key"][2.5][true]: a function cannot be copied'] = { ["odd key"] = { [2.5] = { [true] = print } } },
    ["value[a table]: a table that is a key cannot be copied"] = { [{}] = 1 },
    ["value[a function]: a function that is a key cannot be copied"] = { [print] = 1 },
  }
  for text, value in pairs(refused) do
    check.raises(text, values.encode, value)
  end
  check.raises("value[3].x: a function cannot be copied", values.encode, 1, nil, { x = print })
  local long = ("k"):rep(1000)
  local err = check.raises("...\"]: a function cannot be copied", values.encode, { [long] = print })
  check.truthy(#err < 200)
end)

check.test("cycles and depths are refused", function()
  local cycle = { a = {} }
  cycle.a.b = cycle
  check.raises("value.a.b: a table that contains itself cannot be copied", values.encode, cycle)
  local deep = {}
  for _ = 1, 199 do
    deep = { deep }
  end
  check.truthy(copy(deep))
  check.raises("tables are nested too deep to be copied", values.encode, { deep })
  for _ = 1, 100000 do
    deep = { deep }
  end
  check.raises("tables are nested too deep to be copied", values.encode, deep)
end)

check.test("reading refuses anything but what was written", function()
  check.raises("byte 1: the data ends here, expected more bytes", values.decode, "")
  check.raises("byte 1: an unknown version", values.decode, "not such a string")
  check.raises("string expected", values.decode, nil)
  local text = values.encode { 1, "two", { 3 } }
  for size = 0, #text - 1 do
    check.raises("byte ", values.decode, text:sub(1, size))
  end
  check.raises("bytes after the last value", values.decode, text .. "\0")
end)

check.test("no form of values runs a script", function()
  local t = setmetatable({}, { __index = function() error "called" end, __metatable = "hidden" })
  check.raises("a table with a metatable", values.encode, { t })
end)

-- Random values; the seed is printed when something differs.
local seed = tonumber(os.getenv "ORR_TEST_SEED") or 20261116
local made

local function random_string()
  local size = math.random(5) == 1 and math.random(0, 300) or math.random(0, 12)
  local bytes = {}
  for i = 1, size do
    bytes[i] = string.char(math.random(0, 255))
  end
  return table.concat(bytes)
end

local random_scalar = {
  function() return math.random(0) end,
  function() return math.random(-200, 200) end,
  function() return math.random(0) >> math.random(0, 63) end,
  function() return math.random() * 2.0 ^ math.random(-300, 300) end,
  function() return string.unpack("d", string.pack("i8", math.random(0))) end,
  function() return math.random(2) == 1 end,
  random_string,
}

local function scalar()
  made = made + 1
  return random_scalar[math.random(#random_scalar)]()
end

local function random_value(depth, known)
  local kind = depth > 6 and 1 or math.random(10)
  if kind <= 6 then
    return scalar()
  elseif kind == 7 and #known > 0 then
    return known[math.random(#known)]
  end
  made = made + 1
  local result = {}
  for i = 1, kind ~= 8 and math.random(0, 12) or 0 do
    result[i] = random_value(depth + 1, known)
  end
  for _ = 1, kind ~= 9 and math.random(0, 8) or 0 do
    local key = scalar()
    if key == key then
      result[key] = random_value(depth + 1, known)
    end
  end
  known[#known + 1] = result
  return result
end

check.test("a million random values are the same again", function()
  math.randomseed(seed)
  made = 0
  local rounds = 0
  while made < 1000000 // scale do
    local value = random_value(0, {})
    rounds = rounds + 1
    if not same(value, (copy(value))) then
      error("round " .. rounds .. " of seed " .. seed .. " differs")
    end
  end
  check.truthy(rounds > 100 // scale)
end)

