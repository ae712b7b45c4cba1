-- Never long in one function: millions of tiny pcalls.
-- expect: timeout
local function nothing() end
while true do pcall(nothing) pcall(error) end
