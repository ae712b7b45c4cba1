-- Names of chunks that are long, empty, binary, or shaped like formats: they go into messages.
-- expect: ok
for _, name in ipairs { "", "=", "@", "=%s%n", ("x"):rep(1 << 20), "@" .. ("y"):rep(10000), "\0\0", "\n\n\n" } do
  local f, err = load("error(1", name)
  assert(not f and #tostring(err) < 1000)
  local g = assert(load("error('x')", name))
  local ok, message = pcall(g)
  assert(not ok and #tostring(message) < 1000)
end
