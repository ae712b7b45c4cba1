-- Channels between tasks of one isolate, between an isolate and workers, and between workers.
local check = require "check"
local orrery = require "orrery"
local async, worker = orrery.async, orrery.worker
local test, equal, raises, truthy, note = check.test, check.equal, check.raises, check.truthy, check.note

local function settle()
  while worker.stats().running > 0 do
    async.sleep(1)
  end
end

test("a channel holds as many values as it has room for, one unless told", function()
  local c = worker.channel()
  equal(c:try_send "a", true)
  local sent, why = c:try_send "b"
  equal(sent, nil)
  equal(why, "full")
  equal(#c, 1)
  equal(c:receive(), "a")
  local got
  got, why = c:try_receive()
  equal(got, nil)
  equal(why, "empty")
  c = worker.channel(3)
  for i = 1, 3 do equal(c:send(i), true) end
  equal(c:try_send(4), nil)
  for i = 1, 3 do equal(c:receive(), i) end
end)

test("without room, a sender waits for its receiver", function()
  local c = worker.channel(0)
  equal(select(2, c:try_send(1)), "full")
  local sender = async.run(function()
    c:send "x"
    note "sent"
  end)
  async.checkpoint()
  note "receiving"
  note(c:receive())
  async.await(sender)
  check.notes "receiving; x; sent"
  local receiver = async.run(function() return c:receive() end)
  equal(c:try_send "y", true)
  equal(async.await(receiver), "y")
end)

test("a message has any number of values, nils too", function()
  local c = worker.channel(4)
  c:send()
  c:send(nil)
  c:send(1, nil, 3, nil)
  equal(select("#", c:receive()), 0)
  equal(select("#", c:receive()), 1)
  local got = table.pack(c:receive())
  equal(got.n, 4)
  equal(got[3], 3)
end)

test("a sent value is a copy", function()
  local c, t = worker.channel(), { 1 }
  c:send(t)
  t[1] = 2
  local got = c:receive()
  equal(got[1], 1)
end)

test("items sent before the close are received, and then both sides are told of the close", function()
  local c = worker.channel(3)
  c:send(1)
  c:send(2)
  equal(c:is_closed(), false)
  c:close()
  c:close()
  equal(c:is_closed(), true)
  local sent, why = c:send(3)
  equal(sent, nil)
  equal(why, "closed")
  equal(select(2, c:try_send(3)), "closed")
  equal(c:receive(), 1)
  equal(c:try_receive(), 2)
  equal(select(2, c:receive()), "closed")
  equal(select(2, c:try_receive()), "closed")
end)

test("every waiting task is told of the close", function()
  local empty, full = worker.channel(1), worker.channel(0)
  local told = {}
  for i = 1, 3 do
    async.run(function() told[i] = select(2, empty:receive()) end)
    async.run(function() told[i + 3] = select(2, full:send(i)) end)
  end
  empty:close()
  full:close()
  async.sleep(1)
  equal(table.concat(told, " "), "closed closed closed closed closed closed")
end)

test("a sender that waited when the channel was closed keeps its value to itself", function()
  local c = worker.channel(1)
  c:send "in"
  local sender = async.run(function() return c:send "out" end)
  c:close()
  local sent, why = async.await(sender)
  equal(sent, nil)
  equal(why, "closed")
  equal(c:receive(), "in")
  equal(select(2, c:receive()), "closed")
end)

test("iter goes on until the channel is closed and empty, and a scope can close it", function()
  local c = worker.channel(10)
  do
    local closing <close> = c
    for i = 1, 4 do closing:send(i) end
  end
  local sum = 0
  for value in c:iter() do sum = sum + value end
  equal(sum, 10)
end)

test("waiting tasks are served in order of arrival", function()
  local c, order = worker.channel(0), {}
  for i = 1, 5 do
    async.run(function()
      local letter = c:receive()
      order[#order + 1] = i .. letter
    end)
  end
  for _, letter in ipairs { "a", "b", "c", "d", "e" } do c:send(letter) end
  async.sleep(1)
  equal(table.concat(order, " "), "1a 2b 3c 4d 5e")
  order = {}
  for i = 1, 5 do
    async.run(function() c:send(i) end)
  end
  for i = 1, 5 do order[i] = c:receive() end
  equal(table.concat(order), "12345")
end)

test("a waiter that is cancelled loses nothing, and leaves its place", function()
  local c = worker.channel(0)
  local gone = async.run(function() c:receive() end)
  local stays = async.run(function() return c:receive() end)
  gone:close()
  c:send "for who stays"
  equal(async.await(stays), "for who stays")
  gone = async.run(function() c:send "never sent" end)
  stays = async.run(function() c:send "sent" end)
  gone:close()
  equal(c:receive(), "sent")
  async.await(stays)
  equal(c:try_receive(), nil)
end)

test("a receiver that is cancelled at the moment it is served loses nothing", function()
  for round = 1, 50 do
    local c, got = worker.channel(round % 3), {}
    local first = async.run(function()
      local value = c:receive()
      got[#got + 1] = value
    end)
    local sender = async.run(function() c:send(round) end)
    first:close()
    if #got == 0 then
      got[1] = c:receive()
    end
    equal(got[1], round)
    sender:close()
    equal(c:try_receive(), nil)
  end
end)

test("a time-out while waiting loses nothing", function()
  local c = worker.channel(0)
  raises("timeout", async.with_timeout, 20, function() c:receive() end)
  raises("timeout", async.with_timeout, 20, function() c:send "late" end)
  equal(select(2, c:try_receive()), "empty")
  local receiver = async.run(function() return c:receive() end)
  c:send "in time"
  equal(async.await(receiver), "in time")
end)

test("a worker is fed by a channel, and answers by another", function()
  local questions, answers = worker.channel(2), worker.channel(2)
  local done = async.run(function()
    return worker.new([[
      local questions, answers = ...
      local count = 0
      for question in questions:iter() do
        answers:send(question * question)
        count = count + 1
      end
      answers:close()
      return count
    ]]):call(questions, answers)
  end)
  local feeder = async.run(function()
    for i = 1, 100 do questions:send(i) end
    questions:close()
  end)
  local sum = 0
  for answer in answers:iter() do sum = sum + answer end
  equal(sum, 338350)
  equal(async.await(done), 100)
  async.await(feeder)
end)

test("a channel goes along inside tables, and is the same at the other end", function()
  local c = worker.channel(1)
  local ok, back = worker.new([[
    local t = ...
    t.deep[1].channel:send("through")
    return t.deep[1].channel == t.again, t.again
  ]]):call { deep = { { channel = c } }, again = c }
  equal(ok, true)
  equal(back == c, true)
  equal(c:receive(), "through")
end)

test("channels are sent through channels, but not through themselves", function()
  local outer, inner = worker.channel(1), worker.channel(1)
  outer:send { reply_to = inner }
  outer:receive().reply_to:send "answered"
  equal(inner:receive(), "answered")
  raises("a channel cannot be sent through itself", inner.send, inner, inner)
  raises("a channel cannot be sent through itself", inner.send, inner, { deep = { inner } })
end)

test("two workers talk to one another, and only to one another", function()
  local there, back = worker.channel(0), worker.channel(0)
  local pool = worker.pool { size = 2 }
  local one = pool:new "local there, back = ... for i = 1, 50 do there:send(i) assert(back:receive() == -i) end return 'one'"
  local two = pool:new "local there, back = ... for i = 1, 50 do back:send(-there:receive()) end return 'two'"
  local first = async.run(function() return one:call(there, back) end)
  local second = async.run(function() return two:call(there, back) end)
  equal(async.await(first), "one")
  equal(async.await(second), "two")
end)

test("many producers and many consumers, on all threads: everything arrives once", function()
  for _, capacity in ipairs { 0, 1, 7 } do
    local c = worker.channel(capacity)
    local pool = worker.pool { size = 8 }
    local produce = pool:new "local c, from, to = ... for i = from, to do c:send(i) end"
    local consume = pool:new "local c = ... local t = {} for i in c:iter() do t[#t + 1] = i end return t"
    local consumers, seen = {}, {}
    for i = 1, 4 do
      consumers[i] = async.run(function() return consume:call(c) end)
    end
    async.scope(function()
      for i = 0, 3 do
        async.run(function() produce:call(c, i * 100 + 1, i * 100 + 100) end)
      end
    end)
    c:close()
    local count = 0
    for i = 1, 4 do
      for _, value in ipairs(async.await(consumers[i])) do
        equal(seen[value], nil)
        seen[value] = true
        count = count + 1
      end
    end
    equal(count, 400)
  end
end)

test("jobs that are cancelled while they wait lose nothing", function()
  local c, out = worker.channel(0), worker.channel(1000)
  local taker = worker.new "local c, out = ... while true do out:send((c:receive())) end"
  local sent = 0
  for round = 1, 30 do
    taker:run(c, out, function() end)
    for _ = 1, round % 4 do
      sent = sent + 1
      c:send(sent)
    end
    taker:cancel()
    settle()
    local value = c:try_receive() -- returned by a task that was served but could not go on
    if value then out:send(value) end
  end
  local seen = {}
  while #out > 0 do seen[#seen + 1] = out:receive() end
  table.sort(seen)
  -- An item that the job received and did not pass on belonged to the job, and ended with it.
  for i = 2, #seen do truthy(seen[i] > seen[i - 1], "a value came twice") end
  truthy(#seen <= sent)
end)

test("a channel that nothing refers to is collected", function()
  for _ = 1, 100 do
    local c = worker.channel(3)
    c:send { c = worker.channel(1) }
  end
  collectgarbage()
  collectgarbage()
end)

test("misuse is an error that says what was expected", function()
  local c = worker.channel(1)
  raises("a capacity from 0 to 1000000 expected", worker.channel, -1)
  raises("a capacity from 0 to 1000000 expected", worker.channel, 1000001)
  raises("number expected, got string", worker.channel, "many")
  raises("orrery.channel expected, got table", c.send, {})
  raises("orrery.channel expected, got no value", c.receive)
  raises("channel:send: value: a function cannot be copied", c.send, c, print)
  raises("channel:send: value[2].x: a coroutine cannot be copied", c.send, c, 1, { x = coroutine.create(print) })
  equal(#c, 0)
  truthy(tostring(c):find("^orrery.channel: "), tostring(c))
end)

