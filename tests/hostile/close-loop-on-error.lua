-- An endless loop in __close, while an error unwinds the stack.
-- expect: timeout
pcall(function()
  local _ <close> = setmetatable({}, { __close = function() while true do end end })
  error("out")
end)
