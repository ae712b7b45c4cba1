-- In a C function, for ever: only from outside can it be ended.
it("passes first", function() end)
it("sleeps in the system", function() os.execute "exec sleep 1000" end)
it("never runs", function() end)
