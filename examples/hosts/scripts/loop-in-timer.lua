-- A timer's callback that does not return.
host.loop.set_interval(20, function()
  while true do end
end)

host.async.run("other", function()
  host.async.sleep(100)
  print("script: another task has its turn")
end)
