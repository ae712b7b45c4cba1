-- Each task starts two: a fork bomb that waits between its steps.
-- expect: error .
local async = orrery.async
local function bomb()
  async.sleep(0)
  async.run(bomb)
  async.run(bomb)
end
bomb()
async.sleep(1e6)
