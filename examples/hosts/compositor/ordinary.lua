-- A typical configuration of a compositor: keys, windows, a background task.
local async, events = compositor.async, compositor.events

events:on("key", function(key)
  if key.name == "a" and key.pressed then
    for level = 0, 10 do -- a flash that fades, without a callback
      compositor.set_background(0.1, 0.1, 1 - level / 20)
      async.sleep(16)
    end
  end
end)

events:on("window", function(window)
  print("script: the window '" .. window.title .. "' has " .. window.change)
end)

async.run("titles", function()
  while true do
    local words = {}
    for i = 1, 500 do words[i] = ("%d of %s"):format(i, "500") end
    table.sort(words)
    async.sleep(100)
  end
end)
