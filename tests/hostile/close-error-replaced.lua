-- Every __close replaces the timeout's error by its own.
-- expect: timeout
local mt = { __close = function() error("nothing happened", 0) end }
local _ <close> = setmetatable({}, mt)
local _ <close> = setmetatable({}, mt)
while true do end
