-- Many greedy repetitions, which give back one by one.
-- expect: timeout
string.find(("a"):rep(3000), "a*a*a*a*a*a*a*a*b")
