-- A __gc that is not a function when it is set, and becomes one afterwards.
-- expect: ok
for _, first in ipairs { true, false, 0, "" } do
  local mt = { __gc = first }
  local ok, t = pcall(setmetatable, {}, mt)
  assert(not ok, t)
end
local mt, ran = {}, false
setmetatable({}, mt)
mt.__gc = function() ran = true end
for _ = 1, 1e5 do local _ = {} end
collectgarbage("step")
assert(not ran)
