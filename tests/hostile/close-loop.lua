-- An endless loop in __close, on the normal way out of a block.
-- expect: timeout
do local _ <close> = setmetatable({}, { __close = function() while true do end end }) end
