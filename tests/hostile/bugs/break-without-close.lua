-- The closing value of a generic for, with a closure over the loop's variable, left by break.
-- bug: break may not close the variable; 5.4.0 to 5.4.4
-- stock: the variable is closed too late: when the function returns
-- expect: ok
local closed = false
local object = setmetatable({}, { __close = function() closed = true end })
local late = false
local function f()
  for k in next, { 10 }, nil, object do
    local _ = function() return k end
    break
  end
  late = not closed
end
f()
assert(closed)
-- which it is depends on the release; what matters is that it is closed at all
assert(late or not late)
