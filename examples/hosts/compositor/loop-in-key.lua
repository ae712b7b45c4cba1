-- A key binding that never returns, as everybody writes once.
compositor.events:on("key", function()
  while true do end
end)
