-- Not Lua.
it("is never defined" function() end)
