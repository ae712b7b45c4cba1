-- Runs until it is interrupted; says when it has begun.
local async = require("orrery").async

it("hangs", function()
  io.open(os.getenv "ORR_TEST_BEGUN", "w"):close()
  async.run("below", async.sleep, 1e9)
  async.event():wait()
end)
