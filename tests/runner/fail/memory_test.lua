-- Has no memory left: no handler of errors is called for that.
it("runs out of memory", function() error("not enough memory", 0) end)
