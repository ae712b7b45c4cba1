-- A variable to close whose __close is taken away, or is no function, by the time it is needed.
-- expect: ok
assert(not pcall(load "local x <close> = {}"))
for _, value in ipairs { 1, "x", {} } do
  local ok = pcall(function()
    local mt = { __close = function() end }
    local _ <close> = setmetatable({}, mt)
    mt.__close = value
  end)
  assert(not ok)
end
