-- Hunts the hero while he is near, and gives up after a second.
local async = require("orrery").async

while true do
  local seen = math.abs(monster.look()) <= 15
  if seen then
    monster.say("there you are")
    async.move_on_after(1000, function()
      while monster.look() ~= 0 do
        monster.step(monster.look() > 0 and 1 or -1)
        async.sleep(70)
      end
      monster.say("got you")
    end)
    async.sleep(1500) -- out of breath
  end
  async.sleep(200)
end
