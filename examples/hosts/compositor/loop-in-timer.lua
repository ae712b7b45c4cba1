-- A timer's callback that does not return.
compositor.loop.set_interval(10, function()
  while true do end
end)
