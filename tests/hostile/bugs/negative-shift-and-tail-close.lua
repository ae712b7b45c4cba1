-- Yields inside __close while varargs are returned; shifts by the least integer.
-- bug: two of 5.4.3 that 5.4.4 has fixed: results lost by a yield in __close, overflow in a shift
-- stock: right
-- expect: ok
local co = coroutine.wrap(function(...)
  local _ <close> = setmetatable({}, { __close = function() coroutine.yield("closing") end })
  return ...
end)
assert(co(1, nil, 3) == "closing")
local r = table.pack(co())
assert(r.n == 3 and r[1] == 1 and r[3] == 3)
assert(1 >> math.mininteger == 0 and 1 << math.mininteger == 0)
