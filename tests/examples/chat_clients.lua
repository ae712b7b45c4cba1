-- Three people at examples/chat.lua; the address is the first argument. Prints what Ann and Ben
-- read. The third never reads, and must not hold up the others.

local orrery = require "orrery"
local async, net = orrery.async, orrery.net

local ADDRESS = ...

local function enter(name, options)
  local stream = assert(net.connect(ADDRESS, options))
  assert(stream:read_until("name? "))
  stream:write(name, "\r\n")
  return stream
end

local function expect(who, stream, wanted)
  local line = assert(stream:read_line())
  print(("%s reads %s"):format(who, line))
  assert(line == wanted, wanted)
end

async.with_timeout(60000, function()
  local ann <close> = enter("ann")
  expect("ann", ann, "Welcome, ann. /quit leaves.")
  local ben <close> = enter("ann")
  print(("ben reads %s"):format(ben:read_until("Your name? ")))
  ben:write("ben\r\n")
  expect("ben", ben, "Welcome, ben. /quit leaves.")
  expect("ann", ann, "* ben is here")
  ann:write("hello\r\n", "\27[2J\r\n")
  expect("ben", ben, "ann: hello")
  expect("ben", ben, "ann: [2J")

  local slow <close> = enter("slow", { receive_buffer = 4096 })
  expect("ann", ann, "* slow is here")
  expect("ben", ben, "* slow is here")
  local text, lines = ("x"):rep(900), 0
  repeat -- Ben reads each line before Ann writes the next: only the third can fall behind
    ann:write(text, "\n")
    local line = assert(ben:read_line())
    lines = lines + 1
  until line ~= "ann: " .. text
  print("ben has read many lines:", lines > 64)
  expect("ann", ann, "* slow was too slow")

  ben:write("/quit\r\n")
  expect("ann", ann, "* ben has left")
  ann:write(("y"):rep(2000), "\n")
  expect("ann", ann, "That line is too long. Goodbye.")
  print("ann reads", ann:read_line())
end)
