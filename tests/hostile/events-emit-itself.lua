-- A handler that emits the event it handles.
-- expect: ok
if orrery.events then
  local n = 0
  orrery.events:on("tick", function()
    n = n + 1
    if n < 100000 then orrery.events:emit("tick") end
  end)
  pcall(function() orrery.events:emit("tick") end)
  assert(n < 100000)
end
