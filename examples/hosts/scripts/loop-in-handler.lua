-- The handler of the fifth tick never returns. It is ended at its deadline, so are those of the
-- next ticks, and then the handler is disabled.
local events = host.events

events:on("tick", function(tick)
  while tick.number >= 5 do end
end)

events:on("tick", function(tick)
  if tick.number == 5 then print("script: another handler has its turn") end
end)
