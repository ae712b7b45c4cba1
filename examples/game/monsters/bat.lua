-- Flutters back and forth, each wing beat a task with its own timing, and screeches now and then.
local async = require("orrery").async

async.run("screech", function()
  while true do
    async.sleep(2000)
    monster.say("screech!")
  end
end)

local side = 1
while true do
  for _ = 1, 8 do
    monster.step(side)
    async.sleep(50)
  end
  side = -side
end
