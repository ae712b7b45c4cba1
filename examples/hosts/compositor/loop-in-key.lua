-- The binding that everybody writes once.
compositor.events:on("key", function()
  while true do end
end)
