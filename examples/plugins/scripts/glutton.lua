-- Misbehaves: wants all the memory there is, and catches the error when it does not get it. Only
-- its own state is full.
local orrery = require "orrery"

local all = {}
local ok, err = pcall(function()
  while true do
    all[#all + 1] = ("x"):rep(100000) .. #all
    orrery.async.checkpoint()
  end
end)
all = nil
host.log(("got no more: %s, %s"):format(ok, err))
