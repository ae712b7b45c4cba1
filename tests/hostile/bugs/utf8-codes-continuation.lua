-- utf8.codes over strings with continuation bytes that continue nothing.
-- bug: they are skipped in silence; up to 5.4.4
-- stock: no error, as if they were not there
-- expect: ok
for _, s in ipairs { "ab\xbf\xbf", "\xbfab", "\u{20AC}\x80", "\x80" } do
  local n = 0
  pcall(function() for _ in utf8.codes(s) do n = n + 1 end end)
  assert(n <= #s)
end
