-- __call that calls itself in tail position.
-- expect: timeout
local t = setmetatable({}, { __call = function(self) return self() end })
t()
