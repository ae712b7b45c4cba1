-- An ordinary error whose message handler never returns.
-- expect: timeout
-- uninterrupted: a message handler cannot be suspended, only ended
xpcall(error, function() while true do end end, "go")
