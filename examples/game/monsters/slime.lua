-- Creeps towards the hero, a step in a third of a second, for ever.
local async = require("orrery").async

while true do
  local distance = monster.look()
  monster.step(distance > 0 and 1 or distance < 0 and -1 or 0)
  async.sleep(333)
end
