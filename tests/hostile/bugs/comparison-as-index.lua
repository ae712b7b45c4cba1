-- Indexes an upvalue by a comparison: the code reads a register that an earlier block left.
-- bug: wrong code for t[a < b] where t is an upvalue: the load of t is jumped over; up to 5.4.7
-- stock: gives the wrong value; the script reads a stale register of its own
-- expect: ok
local t = { [true] = "right", [false] = "right" }
local function f(a)
  do local stale = { [true] = "wrong", [false] = "wrong" } assert(stale) end
  local v = t[a < 1]
  return v
end
local ok, value = pcall(f, 0)
assert(not ok or value == "right" or value == "wrong" or value == nil)
assert(f(5) == "right")
