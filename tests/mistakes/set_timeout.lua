-- Calls a global function that browsers have.
setTimeout(function() print "later" end, 10)
