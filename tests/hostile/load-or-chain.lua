-- a or a or a ...: the list of jumps is walked to its end for each, which is quadratic.
-- expect: ok
load("local a return a" .. (" or a"):rep(400000))
