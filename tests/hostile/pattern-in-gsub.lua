-- Exponential matching through gsub, which starts again at each letter.
-- expect: timeout
string.gsub(("a"):rep(5000), "a-a-a-a-a-b", "")
