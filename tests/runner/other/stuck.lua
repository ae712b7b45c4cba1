-- Cannot be suspended, because a C function calls it, and has no deadline; says when it has begun.
it("is stuck", function()
  table.sort({ 1, 2, 3 }, function()
    io.open(os.getenv "ORR_TEST_BEGUN", "w"):close()
    while true do end
  end)
end)
