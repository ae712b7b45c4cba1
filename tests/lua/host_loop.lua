-- A program that does at random everything that scripts do, and notes each step, for hosts that
-- must all see the same.  Its arguments are the API, note(), ask(), which the host answers when it
-- likes, and a seed.

local game, note, ask, seed = ...
local async, loop, events, schedule = game.async, game.loop, game.events, game.schedule
local format = string.format

local began = loop.now()
local left = 300 -- actions
local serial = 0
local queue, event = async.queue(), async.event()
local act

local function pick(n)
  seed = seed * 6364136223846793005 + 1442695040888963407
  return (seed >> 33) % n + 1
end

local function say(what, value)
  note(format("%s %s @%.3f", what, value, loop.now() - began))
end

-- Zero, a part of a millisecond, or some milliseconds.
local function span()
  local kind = pick(4)
  return kind == 1 and 0 or kind == 2 and pick(1000) / 1000 or pick(20)
end

local function name()
  return "e" .. pick(4)
end

local acts = {
  function(id)
    async.run(function()
      async.sleep(span())
      say("slept", id)
      act()
    end)
  end,
  function(id)
    local closed <close> = setmetatable({}, { __close = function() say("closed", id) end })
    async.sleep(span())
    return closed
  end,
  function(id)
    async.checkpoint()
    say("checkpoint", id)
  end,
  function(id)
    loop.set_timeout(span(), function()
      say("timeout", id)
      act()
    end)
  end,
  function(id)
    local times, timer = pick(4), nil
    timer = loop.set_interval(pick(8), function()
      say("interval", id)
      times = times - 1
      if times == 0 then
        timer:close()
        act()
      end
    end)
  end,
  function(id)
    local timer = loop.set_timeout(span(), function() say("too late", id) end)
    async.sleep(span())
    if not timer:is_closing() then
      say("stopped", id)
      timer:close()
    end
  end,
  function(id)
    for i = 1, pick(20) do
      schedule(say, "scheduled " .. i, id)
    end
    schedule(act)
  end,
  function(id)
    local handle = schedule(say, "not cancelled", id)
    if pick(2) == 1 then
      async.checkpoint()
    end
    say("cancel", handle:cancel())
  end,
  function(id)
    local how = pick(2) == 1 and events.on or events.once
    how(events, name(), function(data)
      say("handler " .. id, data)
      if pick(3) == 1 then
        async.sleep(span())
        say("handled " .. id, data)
      end
      act()
    end)
  end,
  function(id)
    say("emitted", events:emit(name(), id))
  end,
  function(id)
    async.run(function() say("got " .. id, queue:get()) end):detach()
  end,
  function(id)
    queue:put(id)
  end,
  function(id)
    async.run(function()
      event:wait()
      say("event", id)
    end):detach()
  end,
  function()
    event:set()
    event:clear()
  end,
  function(id)
    local task = async.run(async.sleep, span() + 5)
    async.sleep(span())
    task:close()
    say("ended", id .. " " .. tostring((task:pwait())))
  end,
  function(id)
    say("in time " .. id, async.move_on_after(span(), async.sleep, span()))
  end,
  function(id)
    local failing = async.run(function()
      async.sleep(span())
      error("bad " .. id, 0)
    end)
    say("failed", select(2, async.pawait(failing)))
  end,
  function(id)
    say("asking", id)
    say("answer " .. id, ask(id))
    act()
  end,
}

function act()
  if left <= 0 then
    return
  end
  left = left - 1
  serial = serial + 1
  local id = serial
  local which = pick(#acts)
  say("act " .. which, id)
  acts[which](id)
end

-- For the host: does something now, outside of tasks, where it cannot wait.
function game.poke(value)
  say("poked", value)
  event:set()
  event:clear()
  async.run(queue.put, queue, value)
  schedule(act)
  async.run(act)
  return value + 1
end

async.supervise(function()
  for _ = 1, 6 do
    async.run(function()
      while left > 0 do
        act()
        async.sleep(span())
      end
    end)
  end
end)
say("over", serial)
