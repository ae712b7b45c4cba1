-- Literals with escapes at their limits, and long brackets of every level without an end.
-- expect: ok
for _, s in ipairs {
  "'\\u{7FFFFFFF}'", "'\\u{80000000}'", "'\\xZZ'", "'\\999'", "'\\u{", "'\\", "'", "[[", "[=[", "[" .. ("="):rep(1 << 18) .. "[",
  "--[[", "--[==[ ]=]", "0x", "0x.p", "1e", "1e+", "3..2", "0x" .. ("f"):rep(1 << 18), "1" .. ("0"):rep(1 << 18), "\0", "\xff", "#!", "'\\z",
} do
  pcall(load, "return " .. s)
end
