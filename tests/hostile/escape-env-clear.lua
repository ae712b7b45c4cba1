-- Every global is removed; the runtime must go on.
-- expect: ok
local async, next_ = orrery.async, next
local names = {}
for name in pairs(_G) do names[#names + 1] = name end
local globals, saved = _G, {}
for i = 1, #names do
  saved[names[i]] = globals[names[i]]
  globals[names[i]] = nil
end
local value = async.await(async.run(function() async.sleep(1) return 3 end))
for name, v in next_, saved do globals[name] = v end
assert(value == 3)
