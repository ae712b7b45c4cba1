-- A weak table in which each value is the next key: one collection passes it thousands of times.
-- expect: any end
-- uninterrupted: the collector's atomic step cannot be interrupted; 20,000 entries take over 1 s
local weak, keys, n = setmetatable({}, { __mode = "k" }), {}, 20000
for i = 1, n do keys[i] = {} end
for i = n, 2, -1 do
  local j = math.random(i)
  keys[i], keys[j] = keys[j], keys[i]
end
for i = 1, n - 1 do weak[keys[i]] = keys[i + 1] end
local first = keys[1]
keys = nil
orrery.async.sleep(0)
repeat until collectgarbage("step")
assert(weak[first])
