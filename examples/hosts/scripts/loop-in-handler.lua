-- The fifth tick is one too many.  Its handler is ended at its deadline, so are those of the next ticks, and then it is not called any more.
local events = host.events

events:on("tick", function(tick)
  while tick.number >= 5 do end
end)

events:on("tick", function(tick)
  if tick.number == 5 then print("script: another handler has its turn") end
end)
