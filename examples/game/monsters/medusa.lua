-- Malicious: looks at the hero for a second, then tries to turn the whole game to stone.
local async = require("orrery").async

for _ = 1, 10 do
  monster.step(monster.look() > 0 and 1 or -1)
  async.sleep(100)
end
monster.say("now freeze!")
while true do
  pcall(function()
    while true do end
  end)
end
