-- A callback that is called twice, late, from elsewhere, and with a thousand values.
-- expect: ok
local async = orrery.async
local saved
local value = async.await(function(callback)
  saved = callback
  callback("first")
  callback("second")
end)
assert(value == "first")
saved("late")
saved(table.unpack({}, 1, 1000))
async.sleep(1)
