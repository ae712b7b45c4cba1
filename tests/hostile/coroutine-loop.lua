-- An endless loop in a coroutine of the script's own: hooks belong to one coroutine.
-- expect: timeout
coroutine.resume(coroutine.create(function() while true do end end))
