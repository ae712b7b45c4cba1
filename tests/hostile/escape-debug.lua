-- The debug library is not there, but for traceback.
-- expect: ok
if debug then
  for name in pairs(debug) do assert(name == "traceback", name) end
  assert(not pcall(function() debug.sethook() end))
  assert(type(debug.traceback("x")) == "string")
end
assert(not pcall(function() return require("debug").getregistry() end))
