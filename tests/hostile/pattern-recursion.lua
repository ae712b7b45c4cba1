-- A pattern with so many parts that the matcher recurses to its limit.
-- expect: ok
local ok, err = pcall(string.find, ("a"):rep(50000), (".?"):rep(50000))
assert(not ok and tostring(err):find("too complex") or ok)
assert(not pcall(string.rep("x", 10).find, "x", ("("):rep(100)))
