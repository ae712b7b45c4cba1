-- A comparison that flips a coin.
-- expect: ok
local t = {}
for i = 1, 2000 do t[i] = i end
for _ = 1, 5 do pcall(table.sort, t, function() return math.random(2) == 1 end) end
assert(#t == 2000)
