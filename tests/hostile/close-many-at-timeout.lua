-- A hundred variables to close, each of which loops when the script is ended.
-- expect: timeout
local function nest(n)
  local _ <close> = setmetatable({}, { __close = function() while true do pcall(error) end end })
  if n > 0 then return (nest(n - 1)) end
  while true do end
end
nest(100)
