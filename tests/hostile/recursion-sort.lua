-- Sorts inside comparisons of sorts.
-- expect: ok
local function less() table.sort({ 1, 2, 3 }, less) return false end
assert(not pcall(less))
