-- A long needle as a pattern without special characters, which find treats as plain.
-- expect: ok
string.find(("a"):rep(4000000), ("a"):rep(2000000) .. "b")
