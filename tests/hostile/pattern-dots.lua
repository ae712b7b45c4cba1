-- A pattern of many dots with lazy repetitions, through match.
-- expect: timeout
string.match(("x"):rep(5000), ".-.-.-.-.-.-b")
