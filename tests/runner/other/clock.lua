-- Not named like a test file, so that it runs only when it is named.
local orrery = require "orrery"

it("runs in real time", function()
  expect(orrery.testing.is_virtual()):to_be(false)
  local before = os.time()
  orrery.async.sleep(20)
  expect(orrery.loop.now()):to_be_a "number"
  expect(os.time()):not_to_be_less_than(before)
  expect(function() orrery.testing.advance(1) end):to_raise "does not obey"
end)
