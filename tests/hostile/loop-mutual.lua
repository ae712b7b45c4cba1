-- Two functions that call each other in tail position.
-- expect: timeout
local odd
local function even(n) return odd(n + 1) end
function odd(n) return even(n + 1) end
even(0)
