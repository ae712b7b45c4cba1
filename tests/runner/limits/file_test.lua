-- Each test is quick enough, but all together are not.
local async = require("orrery").async
for i = 1, 1000 do
  it("test " .. i, function()
    local ends = os.clock() + 0.02
    while os.clock() < ends do async.sleep(1) end
  end)
end
