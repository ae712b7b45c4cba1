-- Catches every error in a loop, also the one that ends the task.
local async = require("orrery").async

local task = async.run("retry", function()
  for _ = 1, 1000 do
    local ok = pcall(async.sleep, 10)
    if ok then
      break
    end
  end
end)
task:close()
