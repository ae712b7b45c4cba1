-- Comparison of strings with zero bytes in a locale where segments of different length are equal.
-- bug: reads past the end of the string; up to 5.4.6; needs os.setlocale and an unusual locale
-- stock: not reachable in the C locale
-- expect: ok
assert(not os or os.setlocale == nil)
local a = ("\u{17A2}\u{17B6}"):rep(100000) .. "\0"
local b = ("\u{17A4}"):rep(100000) .. "\0"
assert((a <= b) == not (a > b))
