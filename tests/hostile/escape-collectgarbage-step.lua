-- Steps of impossible sizes, and steps for ever.
-- expect: timeout
for _, n in ipairs { -1, math.mininteger, 0, math.maxinteger, 1 << 31 } do pcall(collectgarbage, "step", n) end
while true do collectgarbage("step", 1000) end
