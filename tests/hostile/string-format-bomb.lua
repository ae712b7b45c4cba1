-- The widest formats there are, many in one call; and some that are too wide.
-- expect: ok
local s = string.format(("%99.99f"):rep(10), 1e308, 1e308, 1e308, 1e308, 1e308, 1e308, 1e308, 1e308, 1e308, 1e308)
assert(#s < 10000)
for _, f in ipairs { "%1000d", "%.1000f", "%-+ #0-+ #0d", "%" .. ("0"):rep(1000) .. "d", "%", "%y", "%lld", "%n" } do
  assert(not pcall(string.format, f, 1), f)
end
