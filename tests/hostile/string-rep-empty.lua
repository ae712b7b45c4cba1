-- The empty string, a thousand million million times: no memory, but a loop in C.
-- expect: ok
assert(string.rep("", 10 ^ 15 // 1 | 0) == "")
assert(string.rep("", math.maxinteger, "") == "")
