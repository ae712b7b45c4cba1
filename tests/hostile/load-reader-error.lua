-- Readers that raise, return tables, and load with themselves as the reader.
-- expect: ok
assert(not load(function() error({}) end))
assert(not load(function() return {} end))
local function again() return load(again) and "" end
load(again)
