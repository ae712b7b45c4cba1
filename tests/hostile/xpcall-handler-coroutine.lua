-- A handler that escapes into a coroutine of its own, and loops there.
-- expect: timeout
xpcall(error, function()
  coroutine.wrap(function() while true do end end)()
end, "go")
