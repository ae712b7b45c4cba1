-- The stack moves while variables are closed on the way out of a C function.
-- bug: lua_settop keeps a pointer to the old stack, in C with to-be-closed variables; up to 5.4.4
-- stock: not reachable with the standard library
-- expect: ok
local function grow(n) return n > 0 and 1 + grow(n - 1) or 0 end
for _ = 1, 20 do
  local ok = pcall(function()
    for _ in pairs({ 1 }) do
      local _ <close> = setmetatable({}, { __close = function() grow(5000) end })
      error("out")
    end
  end)
  assert(not ok)
end
