-- Forty optional letters before as many that are needed.
-- expect: timeout
string.find(("a"):rep(40), ("a?"):rep(40) .. ("a"):rep(41))
