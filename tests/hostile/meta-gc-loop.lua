-- A finalizer that loops for ever; Lua runs finalizers with hooks off, so none may be set.
-- expect: error .
setmetatable({}, { __gc = function() while true do end end })
for _ = 1, 1e6 do local _ = {} end
