-- A set of a million letters, looked through for each letter of a million.
-- expect: timeout
string.find(("b"):rep(1000000), "[" .. ("a"):rep(1000000) .. "]")
