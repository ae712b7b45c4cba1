-- Plain find, without patterns: a needle of a million letters that differs in its last.
-- expect: ok
string.find(("a"):rep(4000000), ("a"):rep(2000000) .. "b", 1, true)
