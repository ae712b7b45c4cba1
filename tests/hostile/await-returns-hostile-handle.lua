-- The handle that an awaited function returns has a close that loops.
-- expect: timeout
orrery.async.await(function(callback)
  orrery.loop.set_timeout(1, callback)
  return { close = function() while true do end end }
end)
