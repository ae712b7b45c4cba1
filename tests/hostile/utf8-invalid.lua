-- Broken sequences, surrogates, positions in the middle of a character and out of the string.
-- expect: ok
for _, s in ipairs { "\xff", "\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\xfd\xbf\xbf\xbf\xbf\xbf", "\xe2\x82" } do
  assert(not utf8.len(s))
  assert(not pcall(utf8.codepoint, s))
  assert(not pcall(function() for _ in utf8.codes(s) do end end))
end
assert(not pcall(utf8.offset, "\u{20AC}", 1, 2))
assert(not pcall(utf8.offset, "x", 1, math.maxinteger))
assert(not pcall(utf8.char, -1))
assert(not pcall(utf8.char, 1 << 31))
assert(not pcall(utf8.codepoint, "x", math.mininteger, math.maxinteger))
