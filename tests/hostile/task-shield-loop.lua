-- An endless loop under the shield of async.shield.
-- expect: timeout
orrery.async.shield(function() while true do end end)
