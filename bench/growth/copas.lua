-- The figures of growth.lua for copas, as far as it has the features.
-- Usage: lua5.4 copas.lua N

local copas = require "copas"
local count = assert(math.tointeger(tonumber(arg[1])), "a number expected")

if not copas.sleep then
  print "# copas: this version has no copas.sleep, so its threads cannot wait"
  return
end
collectgarbage("incremental") -- as in our program; the interpreter's default is generational

-- Threads that give way once, all at the same time.
local REPEATS = math.max(1, 5000 // count)
local function tasks()
  local start = os.clock()
  for _ = 1, REPEATS do
    local left = count
    for _ = 1, count do
      copas.addthread(function()
        copas.sleep(0)
        left = left - 1
      end)
    end
    while left > 0 do copas.step(0) end
  end
  return (os.clock() - start) * 1e9 / count / REPEATS
end

local figures = {}
for i = 1, count > 1e5 and 1 or 3 do figures[i] = tasks() end
table.sort(figures)
print(("tasks\tcopas\t%d\t%.1f"):format(count, figures[(#figures + 1) // 2]))
