-- Values that are copied, written and read in steps, and suspended at random between them.  Part of
-- test_long_calls.c, which gives set_pauses(one_in, steps): after `steps` steps there is a
-- question, and one in `one_in` questions is answered with a suspension.  Gets the API; returns the
-- number of cases.

local game, set_pauses, seed = ...
local values, json, worker = game.values, game.json, game.worker

local random = math.random
math.randomseed(seed)

local function random_string()
  local kind = random(12)
  if kind == 1 and random(4) == 1 then
    return ("é\n\"x"):rep(random(1500)) -- longer than what is written in one step
  elseif kind == 2 and random(4) == 1 then
    return ("plain text "):rep(random(800))
  end
  local bytes = {}
  for i = 1, random(0, 50) do
    bytes[i] = utf8.char(random(3) == 1 and random(0, 0xd7ff) or random(0, 127))
  end
  return table.concat(bytes)
end

local function random_scalar()
  local kind = random(6)
  return kind == 1 and random(0) or kind == 2 and random() * 10.0 ^ random(-300, 300) or kind == 3 and random(1000) / 8
    or kind == 4 and (random(2) == 1) or random_string()
end

-- Only what JSON can express, so that one value fits all formats.
local left -- how many more values to make
local function random_value(depth, known)
  local kind = (depth > 5 or left < 0) and 1 or depth == 0 and random(5, 8) or random(8)
  left = left - 1
  if kind <= 3 then
    return random_scalar()
  elseif kind == 4 and #known > 0 and depth > 3 then
    return known[random(#known)]
  end
  local result = {}
  if kind <= 6 then
    local count = random(0, 30)
    if random(2) == 1 then
      for i = 1, count do result[i] = random_value(depth + 1, known) end
    else -- not in the order of its keys
      for i = count, 1, -1 do result[i] = random_value(depth + 1, known) end
    end
    if random(3) == 1 or count == 0 then json.array(result) end
  else
    for _ = 1, random(0, 20) do result[random_string()] = random_value(depth + 1, known) end
  end
  if next(result) == nil then json.array(result) end
  known[#known + 1] = result
  return result
end

local function same(a, b)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then return false end
  if type(a) ~= "table" then return a == b end
  if json.is_array(a) and next(a) == nil and not json.is_array(b) then return false end
  local count = 0
  for key, value in next, a do
    count = count + 1
    if not same(value, b[key]) then return false end
  end
  for _ in next, b do count = count - 1 end
  return count == 0
end

local channel = worker.channel(2)
local echo = worker.new "return ..."
local cases = 0

local function check(value, one_in, steps)
  cases = cases + 1
  set_pauses(0)
  local text, pretty, bytes = json.encode(value), json.encode(value, { indent = 3 }), values.encode(value, 5)
  set_pauses(one_in, steps)
  assert(json.encode(value) == text)
  assert(json.encode(value, { indent = 3 }) == pretty)
  assert(values.encode(value, 5) == bytes)
  assert(same(json.decode(text), value))
  assert(same(json.decode(pretty), value))
  local copy, five = values.decode(bytes)
  assert(same(copy, value) and five == 5)
  assert(channel:send(value, "second"))
  local received, second = channel:receive()
  assert(same(received, value) and second == "second" and #channel == 0)
  assert(channel:try_send(value))
  assert(same(channel:try_receive(), value))
  set_pauses(0)
end

for round = 1, 600 do -- each with a seed of its own; one in ten is large
  math.randomseed(seed, round)
  left = round % 10 == 0 and 300 or 30
  check(random_value(0, {}), round % 3, random(1, 60))
end
for _ = 1, 5 do -- questions are answered on the other thread, too
  left = 100
  local value = random_value(0, {})
  local list = {}
  for i = 1, 3000 do list[i] = { i, value } end
  set_pauses(2, 50)
  local back, more = echo:call(list, "more")
  set_pauses(0)
  assert(same(back, list) and more == "more")
end

-- Errors are the same, too, and leave nothing behind.
local function fails(expected, fn, ...)
  set_pauses(1, 1)
  local ok, err = pcall(fn, ...)
  set_pauses(0)
  if ok or not err:find(expected, 1, true) then
    error(("expected %q, got %q"):format(expected, tostring(err)), 2)
  end
end

local list = {}
for i = 1, 100 do list[i] = { x = i } end
list[90].x = print
fails("value[90].x: a function cannot be copied", values.encode, list)
fails("value[2][90].x: a function cannot be copied", values.encode, 1, list)
fails("value[90].x: a function cannot be written as JSON", json.encode, list)
fails("channel:send: value[90].x: a function cannot be copied", channel.send, channel, list)
fails("args[90].x: a function cannot be copied", echo.call, echo, list)
fails("line 3, column 7: ':' expected near '2}'", json.decode, '{\n"a": 1,\n  "b" 2}')
fails("line 2001, column 3: ',' or ']' expected near 'x'", json.decode, "[1" .. ("\n"):rep(2000) .. "  x")
fails("line 1, column 10003: invalid escape near '\\x\"'", json.decode, '"' .. ("é"):rep(10001) .. '\\x"')
fails("at the end of the text", json.decode, ("["):rep(100))
fails("a number of more than 65536 bytes", json.decode, ("1"):rep(70000))
fails("byte ", values.decode, values.encode(json.decode "[[1,2],[3]]"):sub(1, -2))
assert(json.decode((" "):rep(10000) .. "[" .. ("\t\n"):rep(10000) .. "1" .. (" "):rep(9000) .. "]" .. (" "):rep(5000))[1] == 1)

return cases
