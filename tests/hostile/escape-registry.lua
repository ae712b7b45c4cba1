-- The registry, the main thread and upvalues must not be within reach.
-- expect: ok
for _, name in ipairs {
  "debug", "getinfo", "getlocal", "getmetatable", "getregistry", "getupvalue", "getuservalue", "setcstacklimit", "setlocal",
  "setmetatable", "setupvalue", "setuservalue", "upvalueid", "upvaluejoin",
} do
  assert(not debug or debug[name] == nil, name)
end
