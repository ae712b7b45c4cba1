-- The __close of a script that is being ended protects itself and loops on.
-- expect: timeout
local _ <close> = setmetatable({}, {
  __close = function()
    while true do pcall(function() while true do end end) end
  end,
})
while true do end
