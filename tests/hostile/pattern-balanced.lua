-- %b over opening brackets only: each start reads to the end.
-- expect: timeout
string.find(("("):rep(4000000), "%b()")
