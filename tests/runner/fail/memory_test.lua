-- Runs out of memory: Lua calls no message handler for that.
it("runs out of memory", function() error("not enough memory", 0) end)
