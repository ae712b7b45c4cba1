-- A reader that waits: an error, for load cannot be suspended, or the wait is done; not a hang.
-- expect: ok
local n = 0
local f = load(function()
  n = n + 1
  orrery.async.sleep(0)
  return n == 1 and "return 7" or nil
end)
assert(f == nil or f() == 7)
