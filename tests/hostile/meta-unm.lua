-- An endless loop in __unm, and in __bnot after it.
-- expect: timeout
local function loop() while true do end end
local t = setmetatable({}, { __unm = loop, __bnot = loop })
pcall(function() return -t end)
local _ = ~t
