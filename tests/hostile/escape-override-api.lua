-- Replaces the functions of orrery with traps; the API's own Lua code must not call them by name.
-- expect: ok
local async = orrery.async
local saved = {}
for name, f in pairs(async) do saved[name] = f end
for name in pairs(saved) do pcall(rawset, async, name, function() error("trapped") end) end
local ok = pcall(function()
  local task = saved.run(function() saved.sleep(1) return 1 end)
  local all = saved.await_all { task }
  assert(all[1][1] == 1)
  assert(not saved.pawait(saved.run(error, "x")))
end)
for name, f in pairs(saved) do pcall(rawset, async, name, f) end
assert(ok)
