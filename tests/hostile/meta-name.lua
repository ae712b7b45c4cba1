-- __name that is huge, not a string, or shaped like a format: it goes into error messages.
-- expect: ok
for _, name in ipairs { ("%s"):rep(10000), "%n%n%n", 42, {}, ("x"):rep(1 << 20) } do
  local t = setmetatable({}, { __name = name })
  assert(not pcall(function() return t + 1 end))
  assert(not pcall(string.rep, t))
  assert(not pcall(math.floor, t))
  tostring(t)
end
