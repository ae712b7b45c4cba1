-- `orrery.async_nvim` in a stock Lua, loaded without `orrery`, and waiting in plain code.
local async = require "orrery.async_nvim"

local task = async.run("sleeper", function(word)
  async.sleep(5)
  return word, 2
end, "value")
print(task:status(), task:pwait(0))
print(task:wait())

local parent = async.run(function()
  async.run(function()
    async.sleep(1)
    error("CHILD", 0)
  end)
  async.sleep(1e9)
end)
print(parent:pwait(60000))

local forever = async.run(async.await, function() end)
forever:close(function() print "closed" end)
print(forever:pwait())

print(async == require "orrery.async_nvim")
print(require("orrery").run(function()
  return async.run(function()
    async.sleep(1)
    return "inside"
  end):wait()
end))

-- As plugins name it.
package.loaded.async = async
print(require("async").run(function() return require("async").is_closing() end):wait())
