-- JSON text, written and read.

local check = require "check"
local json = require("orrery").json

local function round(text)
  return json.encode(json.decode(text))
end

check.test("numbers keep their kind, and every digit", function()
  for _, value in ipairs { 0, 1, -1, 1 << 53, (1 << 53) + 1, math.maxinteger, math.mininteger, 0.0, 0.1, -2.5, 1e300, 5e-324, 1 / 3,
    2.0 ^ 63, 123456789.0, 1e15, 1e16 } do
    local again = json.decode(json.encode(value))
    check.equal(again, value)
    check.equal(math.type(again), math.type(value), json.encode(value))
  end
  check.equal(json.encode(math.maxinteger), "9223372036854775807")
  check.equal(json.encode(0.1), "0.1")
  check.equal(json.encode(1.0), "1.0")
  check.equal(1 / json.decode(json.encode(-0.0)), -1 / 0)
end)

check.test("integers of more than 64 bits are refused, or floats", function()
  check.raises("line 1, column", json.decode, "9223372036854775808")
  check.raises("too big", json.decode, "[1, 123456789012345678901234567890]")
  check.equal(json.decode("9223372036854775808", { floats = true }), 2.0 ^ 63)
  check.equal(math.type(json.decode("1", { floats = true })), "float")
  check.raises("overflow", json.decode, "1e400")
end)

check.test("null is there, and stays", function()
  check.equal(json.encode(nil), "null")
  check.equal(json.encode(json.null), "null")
  check.equal(json.decode "null", json.null)
  check.equal(round '{"a":null}', '{"a":null}')
  check.equal(round "[null,1,null]", "[null,1,null]")
end)

check.test("empty arrays and empty objects are told apart", function()
  check.equal(json.encode {}, "{}")
  check.equal(json.encode(json.array()), "[]")
  check.equal(json.encode(json.array {}), "[]")
  check.equal(round "[]", "[]")
  check.equal(round "{}", "{}")
  check.equal(round '[[],{},[[]]]', "[[],{},[[]]]")
  check.truthy(json.is_array(json.decode "[]") and not json.is_array(json.decode "{}") and not json.is_array(1))
  check.equal(json.encode(json.array { 1, nil, 3 }), "[1,null,3]")
  check.equal(json.encode(json.array { [2] = 2, [5] = 5 }), "[null,2,null,null,5]")
  check.raises("far more holes than elements", json.encode, json.array { 1, [1 << 40] = 2 })
  check.raises("without a metatable", json.array, setmetatable({}, {}))
  local list = json.decode "[]"
  list[1] = "no longer empty"
  check.equal(json.encode(list), '["no longer empty"]')
  check.equal(getmetatable(list), false)
end)

check.test("strings are UTF-8, escaped where they must be", function()
  check.equal(json.encode 'a"b\\c\n\t\0\127/', '"a\\"b\\\\c\\n\\t\\u0000\127/"')
  check.equal(json.decode '"\\u00e9\\ud83d\\ude00\\u0000x"', "é😀\0x")
  check.equal(json.decode(json.encode "é😀\u{ffff}"), "é😀\u{ffff}")
  for _, bad in ipairs { "\xff", "a\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\xe0\x80\x80" } do
    check.raises("a string that is not UTF-8 (byte ", json.encode, bad)
    check.raises("line 1, column", json.decode, '"' .. bad .. '"')
  end
  check.raises("value.list[2]: a string that is not UTF-8 (byte 3)", json.encode, { list = { "", "ab\xff" } })
  check.raises("value", json.encode, { ["\xff"] = 1 })
end)

check.test("a value that JSON cannot express is refused with its path", function()
  check.raises("value.a[1]: NaN cannot be written as JSON", json.encode, { a = { 0 / 0 } })
  check.raises("value: an infinity cannot", json.encode, 1 / 0)
  check.raises("value.f: a function cannot be written as JSON", json.encode, { f = print })
  check.raises("value: a userdata cannot be written as JSON", json.encode, io.stdout)
  check.raises("value[1.5]: a number that is a key", json.encode, { [1.5] = 1 })
  check.raises("a table with elements and other keys", json.encode, { 1, x = 2 })
  check.raises("an array with holes", json.encode, { 1, nil, 3 })
  check.raises("an array with holes", json.encode, { [3] = 3 })
  check.raises("keys that are not 1 to n", json.encode, json.array { x = 1 })
  check.raises("value: a table with a metatable", json.encode, setmetatable({}, {}))
  local cycle = {}
  cycle[1] = { cycle }
  check.raises("value[1][1]: a table that contains itself", json.encode, cycle)
  check.raises("bad argument", json.encode)
end)

check.test("errors say where", function()
  check.raises("line 1, column 1: ", json.decode, "x")
  check.raises("line 3, column 7: ", json.decode, '{\n"a": 1,\n  "b" 2}')
  check.raises("line 1, ", json.decode, "")
  check.raises("line 1, ", json.decode, "[1] 2")
  check.raises("line 2, column 200: arrays and objects are nested more than 200 deep", json.decode, "[\n" .. ("["):rep(300))
  check.raises("string expected", json.decode, nil)
end)

check.test("depth has a limit, on both ways", function()
  local text = ("["):rep(200) .. ("]"):rep(200)
  check.equal(round(text), text)
  check.equal(json.decode('"' .. ("["):rep(300) .. '"'), ("["):rep(300))
  check.equal(json.decode('"' .. ("\\\"["):rep(300) .. '"'), ('"['):rep(300))
  local deep = {}
  for _ = 1, 200 do
    deep = { deep }
  end
  check.raises("nested too deep to be written as JSON", json.encode, deep)
end)

check.test("a table that was met twice is written twice", function()
  local shared = { 1 }
  check.equal(json.encode { shared, shared }, "[[1],[1]]")
end)

check.test("indented for people", function()
  check.equal(json.encode({ 1, { x = {} }, json.array() }, { indent = 2 }), '[\n  1,\n  {\n    "x": {}\n  },\n  []\n]')
  check.raises("option indent is -1, expected", json.encode, 1, { indent = -1 })
  check.raises("option indent is x, expected", json.encode, 1, { indent = "x" })
end)

check.test("of two equal keys the last counts", function()
  check.equal(json.decode('{"a":1,"a":2}').a, 2)
end)

-- What json.encode must write for a string, one character at a time.
local function written(text)
  local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
  return '"' .. text:gsub('[%c"\\]', function(c)
    return short[c] or c ~= "\127" and ("\\u%04x"):format(c:byte()) or nil
  end) .. '"'
end

check.test("strings of every length, with any character at any place, are the same on both ways", function()
  for _, special in ipairs { '"', "\\", "\n", "\0", "\31", "\127", "/", "é", "漢", "😀" } do
    for size = 0, 40 do
      local plain = ("abcdefghij klmnopqrstuvwxyz0123456789,:[]{}"):sub(1, size)
      for place = 0, size do
        local text = plain:sub(1, place) .. special .. plain:sub(place + 1)
        local encoded = json.encode(text)
        check.equal(encoded, written(text))
        check.equal(json.decode(encoded), text)
        check.equal(json.decode('{"' .. ("x"):rep(600) .. '":0,' .. encoded .. ":1}")[text], 1)
      end
    end
  end
end)

check.test("bytes that are not UTF-8 are refused at any place", function()
  for place = 0, 40 do
    for _, bad in ipairs { "\xff", "\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf0\x9f\x98", "\xf4\x90\x80\x80" } do
      for _, rest in ipairs { "", "abc", ("a"):rep(30) } do
        local text = ("p"):rep(place) .. bad .. rest
        check.raises("not UTF-8 (byte " .. place + 1 .. ")", json.encode, text)
        check.raises("line 1, column " .. place + 2 .. ": a string that is not UTF-8", json.decode, '"' .. text .. '"')
        check.raises("a string that is not UTF-8", json.decode, '"\\n' .. text .. '"')
      end
    end
  end
end)

check.test("names and words that come again are the right ones", function()
  local list = {}
  for i = 1, 300 do
    local item = { word = "w" .. i % 5, [""] = "" }
    for size = 1, 20 do
      item[("n"):rep(size)] = size
      item[("n"):rep(size - 1) .. i % 7] = i
      item[i % 90 .. ("n"):rep(size)] = "v" .. i % 90
    end
    list[i] = item
  end
  local again = json.decode(json.encode(list))
  check.equal(#again, #list)
  for i, item in ipairs(list) do
    for name, value in pairs(item) do
      check.equal(again[i][name], value)
    end
    for name in pairs(again[i]) do
      check.truthy(item[name], name)
    end
  end
end)

check.test("a table that contains itself is refused at any depth", function()
  for depth = 1, 199, 33 do
    local inner = {}
    local outer = inner
    for _ = 1, depth do
      outer = { { 1, 2 }, outer }
    end
    inner[1] = outer
    check.raises("[2][1]: a table that contains itself", json.encode, outer)
    inner[1] = inner
    check.raises("[2][1]: a table that contains itself", json.encode, outer)
  end
end)

check.test("floats are written with as few digits as they need", function()
  for text, value in pairs { ["5e-324"] = 5e-324, ["1e+23"] = 1e23, ["0.3"] = 0.3, ["0.30000000000000004"] = 0.1 + 0.2,
    ["1.7976931348623157e+308"] = 1.7976931348623157e308, ["2.2250738585072014e-308"] = 2.2250738585072014e-308,
    ["5.684341886080802e-14"] = 2.0 ^ -44, ["123456789012345.6"] = 123456789012345.6, ["0.0001"] = 1e-4, ["1e-05"] = 1e-5,
    ["100000000000000.0"] = 1e14, ["1e+15"] = 1e15, ["-1.5"] = -1.5 } do
    check.equal(json.encode(value), text)
    check.equal(json.decode(text), value)
  end
end)
