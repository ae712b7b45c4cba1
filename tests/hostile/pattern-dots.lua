-- The same with dots, through match.
-- expect: timeout
string.match(("x"):rep(5000), ".-.-.-.-.-.-b")
