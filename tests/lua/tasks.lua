-- Tasks from Lua: starting, awaiting, failing, closing.

local check = require "check"
local async = require("orrery").async
local test, equal, note = check.test, check.equal, check.note

test("a task starts at once and runs up to its first wait", function()
  local task = async.run(function()
    note "begins"
    async.sleep(1)
    note "ends"
  end)
  note "goes on"
  async.await(task)
  check.notes "begins; goes on; ends"
end)

test("arguments and results keep their nils and their count", function()
  local function all(...)
    return select("#", ...), ...
  end
  equal(select("#", async.await(async.run(all, nil, nil))), 3)
  equal(select("#", async.await(async.run(function() end))), 0)
  local a, b, c, d = async.await(async.run(all, 1, nil, 3))
  equal(a, 3)
  equal(b, 1)
  equal(c, nil)
  equal(d, 3)
end)
