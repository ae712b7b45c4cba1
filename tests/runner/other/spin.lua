-- Runs until it is interrupted, and never waits.
it("spins", { timeout = 1e6 }, function()
  print "spinning"
  while true do end -- luacheck: ignore
end)
