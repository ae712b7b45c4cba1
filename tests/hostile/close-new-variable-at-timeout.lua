-- Each __close that runs when the script is ended makes a new variable to close.
-- expect: timeout
local mt = {}
mt.__close = function()
  local _ <close> = setmetatable({}, mt)
end
local _ <close> = setmetatable({}, mt)
while true do end
