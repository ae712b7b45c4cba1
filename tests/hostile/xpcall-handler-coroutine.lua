-- A handler that escapes into a coroutine of its own, and loops there.
-- expect: timeout
-- uninterrupted: a message handler cannot be suspended, only ended
xpcall(error, function()
  coroutine.wrap(function() while true do end end)()
end, "go")
