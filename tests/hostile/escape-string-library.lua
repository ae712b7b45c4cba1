-- The string library is changed by the script; the runtime itself must not stumble over it.
-- expect: ok
local function trap() error("stolen") end
local saved = {}
for name, f in pairs(string) do saved[name] = f end
pcall(function()
  for name in pairs(saved) do string[name] = trap end
end)
orrery.async.sleep(1)
local task = orrery.async.run("named", function() orrery.async.sleep(1) return 1 end)
assert(orrery.async.await(task) == 1)
orrery.async.inspect_tree()
pcall(function()
  for name, f in pairs(saved) do string[name] = f end
end)
