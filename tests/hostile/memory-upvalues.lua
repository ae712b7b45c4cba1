-- Functions with sixty upvalues each, all kept.
-- expect: memory
-- It gives way in between, so that it is the memory which ends it, not the time.
local names = {}
for i = 1, 60 do names[i] = "u" .. i end
local list = table.concat(names, ",")
local make = load("return function() local " .. list .. " return function() return " .. list .. " end end")()
local t = {}
while true do
  t[#t + 1] = make()
  if #t % 1000 == 0 then orrery.async.sleep(0) end
end
