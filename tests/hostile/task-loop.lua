-- A child task that loops as it starts, so that its creator waits for it.
-- expect: timeout
orrery.async.run(function() while true do end end)
