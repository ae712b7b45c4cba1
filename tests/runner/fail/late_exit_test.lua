-- Ends its process badly when all tests have passed.
it("passes", function()
  local keep = setmetatable({}, { __gc = function() os.exit(4) end })
  _G.kept = keep -- luacheck: ignore
end)
