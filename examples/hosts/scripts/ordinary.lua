-- A good script: a handler, a task that waits, a timer. None of them runs for long before it waits
-- again.
local async, events, loop = host.async, host.events, host.loop

events:on("line", function(line)
  print("script: the host has read '" .. line.text .. "'")
end)

events:on("tick", function(tick)
  if tick.number == 10 then
    async.sleep(50) -- a handler is a task, too
    print("script: a little after the tenth tick")
  end
end)

async.run("count", function()
  for i = 1, 3 do
    async.sleep(100)
    print("script: counted to " .. i)
  end
end)

loop.set_interval(250, function() print("script: a quarter of a second") end)
