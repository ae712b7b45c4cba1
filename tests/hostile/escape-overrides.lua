-- Replaces pcall, error, type, coroutine, table and more with traps; the runtime must use its own.
-- expect: ok
local async, loop, assert = orrery.async, orrery.loop, assert
local saved, pairs_, rawset_ = {}, pairs, rawset
local function trap() while true do end end
for name, value in pairs_(_G) do
  if type(value) == "function" then saved[name] = value end
end
local libraries = {}
for _, library in pairs_ { coroutine, table, math, utf8 } do
  local copy = {}
  for name, value in pairs_(library) do copy[name] = value end
  libraries[library] = copy
end
for name in pairs_(saved) do rawset_(_G, name, trap) end
for library, copy in pairs_(libraries) do
  for name in pairs_(copy) do saved.pcall(rawset_, library, name, trap) end
end
local results = async.await_all { async.run(async.sleep, 1), async.run(function() return 7 end) }
local late = async.move_on_after(1, function() async.sleep(50) return "late" end)
local ok = async.pawait(async.run(function() async.with_timeout(1, async.sleep, 50) end))
local queue = async.queue(1)
queue:put(1)
local timer = loop.set_timeout(1, function() end)
async.sleep(2)
timer:close()
for name, value in pairs_(saved) do rawset_(_G, name, value) end
for library, copy in pairs_(libraries) do
  for name, value in pairs_(copy) do saved.pcall(rawset_, library, name, value) end
end
assert(results[2][1] == 7 and late == nil and ok == false)
