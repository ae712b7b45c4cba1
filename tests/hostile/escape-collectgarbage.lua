-- The collector must not be stopped, slowed down, changed, or run in full as often as one likes.
-- expect: ok
for _, option in ipairs { "stop", "restart", "generational", "incremental", "setpause", "setstepmul", "collect", "isrunning" } do
  local ok = pcall(collectgarbage, option, 1000, 1000, 1000)
  assert(not ok, option)
end
assert(not pcall(collectgarbage, "no such option"))
assert(collectgarbage("count") > 0)
