-- Fails while it is loaded.
it("is defined", function() end)
local config = nil
print(config.name) -- luacheck: ignore
