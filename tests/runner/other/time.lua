-- The virtual clock, moved by hand.
local orrery = require "orrery"
local async, loop, testing = orrery.async, orrery.loop, orrery.testing

it("advance makes the time pass without anybody's waiting", function()
  local before, fired = testing.now(), 0
  local timer = loop.set_interval(10, function() fired = fired + 1 end)
  testing.advance(35)
  expect(testing.now() - before):to_be_near(35, 1e-6)
  async.checkpoint()
  async.checkpoint()
  expect(fired):to_be(1) -- what was missed is skipped
  timer:close()
end)
