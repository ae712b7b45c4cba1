-- The block itself loops, and so does the __close that runs when the script is ended.
-- expect: timeout
local _ <close> = setmetatable({}, { __close = function() while true do end end })
while true do end
