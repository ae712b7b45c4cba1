-- a or a or a ...: the list of jumps is walked to its end for each, which is quadratic.
-- expect: timeout
-- uninterrupted: between two looks at the deadline the parser works through a piece of the text; keep the pieces small
load("local a return a" .. (" or a"):rep(400000))
