-- Tests that leave sockets open. They use real sockets: see tests/check-runner.
local orrery = require "orrery"
local async, net = orrery.async, orrery.net
local kept
it("leaves streams, a listener and a datagram socket open", function()
  kept = { net.listen "unix:@orrery-runner-listener" }
  kept[2] = net.connect "unix:@orrery-runner-listener"
  kept[3] = net.udp "unix:@orrery-runner-socket"
  kept[4], kept[5] = net.pipe()
end)

it("starts with nothing open", function()
  expect(#orrery.testing.leaks()):to_be(1) -- the test itself
  for _, object in ipairs(kept) do
    expect(object:is_open()):to_be(false)
  end
end)

it("forgets a stream, which the collector finds", function()
  local function forget()
    local _, writer = net.pair()
    writer:close()
  end
  forget()
  collectgarbage()
  collectgarbage()
end)

it("leaves a task that waits for a stream", function()
  local reader, writer = net.pair()
  kept = writer
  async.run({ name = "lost", detached = true }, function() reader:read() end)
end)
