-- Tests that take for ever in real time.

local async = require("orrery").async

it("loops without waiting", function()
  while true do end -- luacheck: ignore
end)
it("loops, and catches all errors", function()
  while true do pcall(function() while true do end end) end -- luacheck: ignore
end)
it("has a child that loops", function()
  async.run("child", function() async.sleep(1) while true do end end) -- luacheck: ignore
  async.sleep(10)
end)
it("waits again and again", function()
  while true do async.sleep(1000) end
end)
it("refuses to end", function()
  while true do pcall(async.sleep, 1000) async.shield(async.sleep, 1) end
end)
it("has a time of its own", { timeout = 50 }, function()
  while true do async.sleep(1000) end
end)
it("is no trouble for the next test", function() async.sleep(3600e3) end)
