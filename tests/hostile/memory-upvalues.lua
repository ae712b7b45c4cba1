-- Functions with sixty upvalues each, all kept.
-- expect: memory
-- It waits in between, so that the memory limit ends it, not the deadline.
local names = {}
for i = 1, 60 do names[i] = "u" .. i end
local list = table.concat(names, ",")
local make = load("return function() local " .. list .. " return function() return " .. list .. " end end")()
local t = {}
while true do
  t[#t + 1] = make()
  if #t % 1000 == 0 then orrery.async.sleep(0) end
end
