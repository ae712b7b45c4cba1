-- A tour of Orrery, in a few seconds: tasks, failures, cancellation, time limits, timers, events, a
-- worker on another core, and a task that never stops. It prints what happens, with the seconds
-- since the start.
--
--     orrery examples/tour.lua              or: make run
--     orrery --virtual examples/tour.lua    in no time: the clock jumps from one event to the next

local orrery = require "orrery"
local async, events, loop, worker = orrery.async, orrery.events, orrery.loop, orrery.worker

io.stdout:setvbuf("line")
local begin = loop.now()

local function say(who, what, ...)
  print(("%7.2f s  %-9s %s"):format((loop.now() - begin) / 1000, who, what:format(...)))
end

local function chapter(title)
  async.sleep(300)
  print(("\n%s %s"):format(title, ("-"):rep(75 - #title)))
  async.sleep(300)
end

-- This function takes time and may fail. There is no `async` keyword: any function may wait.
local function fetch(what, ms, failure)
  say(what, "is asked for")
  async.sleep(ms)
  if failure then
    error(failure, 0)
  end
  say(what, "is here, after %d ms", ms)
  return #what
end

print("Orrery " .. orrery.version .. ": what happens, when it happens")

chapter "Tasks start at once, and run side by side"
local text = async.run("text", fetch, "text", 400)
local image = async.run("image", fetch, "image", 250)
say("page", "waits for both; this is the tree of tasks:")
io.write((async.inspect_tree():gsub("[^\n]+", "           | %0")))
say("page", "has %d + %d bytes", async.await(text), async.await(image))

chapter "A failure is raised where somebody waits, and takes its siblings along"
local ok, err = pcall(async.scope, function()
  async.run("text", function()
    local _ <close> = setmetatable({}, { __close = function() say("text", "is cancelled, and cleans up") end })
    fetch("text", 5000)
  end)
  async.run("image", fetch, "image", 200, "no such image")
end)
say("page", "%s: %s", ok, err)

chapter "What is closed ends at once, and may take its time to say goodbye"
local server = async.run("server", function()
  local _ <close> = setmetatable({}, {
    __close = function()
      async.shield(function() -- it may wait although it is being closed
        say("server", "says goodbye to its client")
        async.sleep(200)
      end)
    end,
  })
  async.run("client", async.sleep, 1e6)
  async.sleep(1e6)
end)
async.sleep(200)
say("tour", "closes the server")
server:close()
async.pawait(server)
say("tour", "the server is gone, and its client with it")

chapter "Anything can have a time limit"
say("answer", "%s, %s", pcall(async.with_timeout, 200, fetch, "answer", 1e6))
say("answer", "or else: %s", async.move_on_after(200, fetch, "guess", 100) or "nothing")

chapter "Timers and events"
local id = events:on("tick", function(count)
  async.sleep(50) -- a handler is a task, too
  say("handler", "has heard of tick %d", count)
end)
local ticks = 0
local timer = loop.set_interval(150, function()
  ticks = ticks + 1
  say("timer", "tick %d", ticks)
  events:emit("tick", ticks)
end)
async.sleep(500)
timer:close()
events:off(id)

chapter "A worker computes on another core, while this one goes on"
local primes = worker.new [[
  local below = ...
  local count = 0
  for n = 2, below - 1 do
    local prime = true
    for d = 2, math.floor(n ^ 0.5) do
      if n % d == 0 then prime = false break end
    end
    if prime then count = count + 1 end
  end
  return count
]]
async.scope(function()
  local job = async.run("primes", function() return primes:call(300000) end)
  say("primes", "are being counted, elsewhere")
  while job:status() ~= "completed" do
    async.move_on_after(100, async.await, job)
    say("tour", job:status() == "completed" and "has the answer" or "meanwhile")
  end
  say("primes", "there are %d below 300000", async.await(job))
end)

chapter "A task that never stops freezes nobody"
async.scope(function()
  local spin = async.run({ name = "spin", fair = true, deadline = 400 }, function()
    say("spin", "loops for ever, and catches every error")
    while true do pcall(function() while true do end end) end
  end)
  async.run("clock", function()
    for i = 1, 3 do
      async.sleep(100)
      say("clock", "%d", i)
    end
  end)
  say("spin", "%s, %s", async.pawait(spin))
end)

print("\nThat was all; nothing is left behind.")
