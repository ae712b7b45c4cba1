-- Ends its process.
it("passes first", function() end)
it("exits", function() os.exit(3) end)
it("never runs", function() end)
