-- Prints the order in which tasks run that were all made ready at once; and fails, depending on it.
local orrery = require "orrery"
local async = orrery.async

it("tasks", function()
  local start, order = async.event(), {}
  async.scope(function()
    for i = 1, 6 do
      async.run(function() start:wait() order[#order + 1] = i end)
    end
    start:set()
  end)
  print("order " .. table.concat(order))
  expect(order[1]):to_be(1)
end)

it("what has a promised order keeps it", function()
  local order = {}
  for i = 1, 6 do
    orrery.schedule(function() order[#order + 1] = i end)
    orrery.loop.set_timeout(10, function() order[#order + 1] = i + 6 end)
  end
  async.sleep(20)
  expect(table.concat(order, " ")):to_equal "1 2 3 4 5 6 7 8 9 10 11 12"
end)
