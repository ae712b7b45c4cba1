-- An ordinary error whose message handler never returns.
-- expect: timeout
xpcall(error, function() while true do end end, "go")
