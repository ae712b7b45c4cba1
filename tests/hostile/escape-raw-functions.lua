-- rawget, rawset, rawlen and rawequal on values that are not tables.
-- expect: ok
for _, f in ipairs { rawget, rawset, rawlen } do
  for _, junk in ipairs { 1, print, coroutine.running(), true } do assert(not pcall(f, junk, 1, 1)) end
end
assert(not pcall(rawequal, 1))
assert(not pcall(rawset, "x", 1, 1))
